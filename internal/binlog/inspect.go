package binlog

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// Inspection holds the stored positions of a relay that does not run.
type Inspection struct {
	cdc.Inspection

	// Executed is every transaction that the server has in its binlog or had and whose rows can be seen: who compares rows with it must not
	// miss any. Purged are those that it has no log of any more. On MariaDB they are the last GTID of each domain.
	Executed, Purged cdc.Position

	server server
}

// Inspect reads where the server's log stands and the checkpoint, and applies the start rules as
// [Source.Acquire] does. The error is for a server that cannot be asked.
func Inspect(ctx context.Context, d *mysql.Database, o Options, load cdc.Resumer) (Inspection, error) {
	sv := server{source: d.Source(o.Options), flavor: d.Server.Flavor}
	var err error
	if sv.executed, sv.purged, err = mysql.ReadGTIDs(ctx, d.DB, sv.flavor); err != nil {
		return Inspection{}, err
	}
	in := Inspection{
		Inspection: cdc.Inspection{Source: sv.source}, Purged: cdc.Position(sv.purged.String()), server: sv,
	}
	if in.Executed, err = mysql.SnapshotPosition(ctx, d.DB, sv.flavor, sv.executed); err != nil {
		return Inspection{}, err
	}
	in.Checkpoint, in.Found, in.LoadErr = load(ctx, sv.source)
	v, refused := resolve(sv, storedCheckpoint{in.Checkpoint, in.Found}, nil, o.FromNow)
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

// Preview returns what a move to the position means, or why it cannot be made. Where no checkpoint is stored
// nothing is known to be skipped.
func (in *Inspection) Preview(to cdc.Position) (cdc.Move, error) {
	f := in.server.flavor
	target, err := mysql.ParseSet(f, string(to))
	if err != nil {
		return cdc.Move{}, cdc.ConfigError("position", "give what `cdc-relay position show` prints", "%w", err)
	}
	switch {
	case !target.Covers(in.server.purged):
		return cdc.Move{}, cdc.PositionError("binlog_purged", "publish what consumers miss with `cdc-relay repair --since TIME`",
			"%s lies before %s, where the server's binlog begins, and no replication goes back there", target, in.server.purged)
	case !in.server.executed.Covers(target):
		return cdc.Move{}, cdc.ConfigError("beyond_log", "give a position that has been", "%s holds transactions that the server does not have, which has reached %s", target, in.server.executed)
	}
	m := cdc.Move{To: cdc.Position(target.String()), KeepsCommit: true}
	if !in.Found {
		return m, nil
	}
	now, err := mysql.ParseSet(f, string(in.Checkpoint.Progress.Position))
	if err != nil { // what is stored is of no use, so it says nothing about what would be skipped
		return m, nil //nolint:nilerr // a position set by hand is the fix
	}
	m.Skips, m.Repeats = target.Without(now), now.Without(target)
	m.KeepsCommit = m.Repeats == 0
	return m, nil
}

// TryLog verifies that this user may read the binlog from here: it asks for what comes next and hangs up.
func TryLog(ctx context.Context, d *mysql.Database) error {
	executed, _, err := mysql.ReadGTIDs(ctx, d.DB, d.Server.Flavor)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, mysql.ConnectTimeout)
	defer cancel()
	c, err := newDialer(d.Config, d.Server.Flavor, mysql.AccountOf(d.Server.Role)).open(ctx, dumpStart{set: executed})
	if err != nil {
		return err
	}
	return c.conn.Close()
}

// Check verifies what a run needs from the server and changes nothing; load is asked for the checkpoint to compare
// with the binlog. It also returns the configured tables that exist, so that their columns can be checked.
func Check(ctx context.Context, o Options, load cdc.Resumer) ([]cdc.Finding, map[string]*cdc.Table) {
	return mysql.Check(ctx, o.Options, func(ctx context.Context, d *mysql.Database) (in cdc.Inspection, unreadable, err error) {
		if err := TryLog(ctx, d); err != nil {
			return in, err, nil
		}
		inspected, err := Inspect(ctx, d, o, load)
		return inspected.Inspection, nil, err
	})
}
