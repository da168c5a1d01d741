package binlog

import (
	"context"
	"errors"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Inspection holds the stored positions of a relay that does not run.
type Inspection struct {
	Source cdc.Source
	// Executed is every transaction that the server has in its binlog or had, Purged those that it has no log
	// of any more. On MariaDB they are the last GTID of each domain.
	Executed, Purged cdc.Position
	// Checkpoint is what is stored, Found whether anything is, LoadErr why that is not known or not continued from.
	Checkpoint cdc.Checkpoint
	Found      bool
	LoadErr    error
	// From is where a run that starts now would go on; Refused is why it would not.
	From    cdc.Position
	Refused error

	server server
}

// Inspect reads where the server's log stands and the checkpoint, and applies the start rules as
// [Source.Acquire] does. The error is for a server that cannot be asked.
func (d *Database) Inspect(ctx context.Context, o Options, load cdc.Resumer) (Inspection, error) {
	sv := server{source: d.Source(o), flavor: d.Server.Flavor}
	var err error
	if sv.executed, sv.purged, err = readServer(ctx, d.db, sv.flavor); err != nil {
		return Inspection{}, err
	}
	in := Inspection{
		Source: sv.source, Executed: cdc.Position(sv.executed.String()), Purged: cdc.Position(sv.purged.String()), server: sv,
	}
	in.Checkpoint, in.Found, in.LoadErr = load(ctx, sv.source)
	v, refused := resolve(sv, storedCheckpoint{in.Checkpoint, in.Found}, nil, o.StartFrom)
	switch {
	case in.LoadErr != nil:
		in.Refused = in.LoadErr
	case refused != nil:
		in.Refused = refused
	case v.behind:
		in.From, in.Refused = cdc.Position(v.from.String()), historyLost(sv, v.from)
	default:
		in.From = cdc.Position(v.from.String())
	}
	return in, nil
}

// Move is a change of position by hand.
type Move struct {
	To cdc.Position
	// Skips is how many transactions are passed over: their events are never published. Repeats is how many
	// are read again: their events are published twice. Both may be more than 0: a set need not grow at one
	// end. On MariaDB they count the numbers between two GTIDs of a domain.
	Skips, Repeats uint64
}

// Preview returns what a move to the position means, or why it cannot be made. Where no checkpoint is stored
// nothing is known to be skipped.
func (in *Inspection) Preview(to cdc.Position) (Move, error) {
	f := in.server.flavor
	target, err := parseSet(f, string(to))
	if err != nil {
		return Move{}, cdc.ConfigError("position", "give what `cdc-relay position show` prints", "%w", err)
	}
	switch {
	case !target.covers(in.server.purged):
		return Move{}, cdc.PositionError("binlog_purged", "publish what consumers miss with `cdc-relay repair --since TIME`",
			"%s lies before %s, where the server's binlog begins, and no replication goes back there", target, in.server.purged)
	case !in.server.executed.covers(target):
		return Move{}, cdc.ConfigError("beyond_log", "give a position that has been", "%s holds transactions that the server does not have, which has reached %s", target, in.server.executed)
	}
	m := Move{To: cdc.Position(target.String())}
	if !in.Found {
		return m, nil
	}
	now, err := parseSet(f, string(in.Checkpoint.Progress.Position))
	if err != nil { // what is stored is of no use, so it says nothing about what would be skipped
		return m, nil //nolint:nilerr // a position set by hand is the fix
	}
	m.Skips, m.Repeats = without(target, now), without(now, target)
	return m, nil
}

// without counts the transactions of a that are not in b.
func without(a, b gtidSet) uint64 {
	var n uint64
	switch a := a.(type) {
	case mariadbSet:
		other, _ := b.(mariadbSet)
		for domain, g := range a {
			if before := other[domain].number; g.number > before {
				n += g.number - before
			}
		}
	case mysqlSet:
		other, _ := b.(mysqlSet)
		for sid, tags := range a.MysqlGTIDSet {
			for tag, intervals := range tags {
				n += beyond(intervals, other.MysqlGTIDSet[sid][tag])
			}
		}
	}
	return n
}

// beyond counts the numbers in a that are not in b. Intervals end before their Stop, and those of a set do not
// overlap.
func beyond(a, b mysql.IntervalSlice) uint64 {
	var n int64
	for _, x := range a {
		n += x.Stop - x.Start
		for _, y := range b {
			n -= max(0, min(x.Stop, y.Stop)-max(x.Start, y.Start))
		}
	}
	return uint64(n)
}

func reasonOf(err error) string {
	if stop, ok := errors.AsType[*cdc.StopError](err); ok {
		return stop.Reason
	}
	return ""
}
