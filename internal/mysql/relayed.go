package mysql

import (
	"context"
	"regexp"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// relayed is how far the relay has published and saved.
type relayed struct {
	// upto is the checkpoint's position; nil: none is stored, or it does not tell.
	upto Set
	// unknown is why the checkpoint does not tell.
	unknown error
}

func (r relayed) passed(noted Set) bool { return r.upto != nil && r.upto.Covers(noted) }

// Passed reports whether a position is behind a row's place; see [cdc.Batch.Place]. A row that was read from the table has no
// GTID, and never comes again.
func Passed(p cdc.Progress, place string) bool {
	tx, ordinal := cdc.SplitPlace(place)
	f := cdc.MariaDB
	switch {
	case cdc.OfTable(place):
		return true
	case strings.Contains(tx, ":"):
		f = cdc.MySQL
	}
	if tx == p.Part.TxID && p.Part.TxID != "" {
		return ordinal < p.Part.Rows
	}
	at, err := ParseSet(f, string(p.Position))
	if err != nil {
		return false
	}
	set, err := ParseSet(f, tx)
	return err == nil && at.Covers(set)
}

// relayed asks for the position of the checkpoint. That of a server that has lost its history covers transactions which are still
// to come.
func (d *Database) relayed(ctx context.Context, db querier, here cdc.Source, load cdc.Loader) relayed {
	c, found, err := load(ctx)
	switch {
	case err != nil || !found:
		return relayed{unknown: err}
	case !c.Source.Same(here):
		return relayed{unknown: cdc.Fixable("start the relay, which compares it with the server", "the checkpoint is of another source (%s, database %s)", c.Source.SystemID, c.Source.Database)}
	}
	saved, err := ParseSet(d.Server.Flavor, string(c.Progress.Position))
	if err != nil {
		return relayed{unknown: err}
	}
	now, err := d.end(ctx, db) // after the checkpoint
	switch {
	case err != nil:
		return relayed{unknown: err}
	case !now.Covers(saved):
		return relayed{unknown: cdc.Fixable("start the relay, which says how to continue", "the checkpoint is ahead of the server, which has reached %s", now)}
	}
	return relayed{upto: saved}
}

// owners are the threads in gtid_owned: "3e11fa47-...:5#17".
var owners = regexp.MustCompile(`#[0-9]+`)

// end returns a position behind every transaction whose rows can be seen, or that a relay can have read. MySQL shows both before the
// GTID is in gtid_executed; until then it is in gtid_owned, which is read first. MariaDB sets gtid_binlog_pos before. Unlike
// [ReadGTIDs] it needs no right, which an owner may lack.
func (d *Database) end(ctx context.Context, db querier) (Set, error) {
	queries := []string{"SELECT @@GLOBAL.gtid_owned", "SELECT @@GLOBAL.gtid_executed"}
	if d.Server.Flavor == cdc.MariaDB {
		queries = []string{"SELECT @@GLOBAL.gtid_binlog_pos"}
	}
	var all []string
	for _, query := range queries {
		sets, err := firstColumn(ctx, db, "read where the binlog ends", query)
		if err != nil {
			return nil, err
		}
		all = append(all, owners.ReplaceAllString(sets[0], ""))
	}
	return ParseSet(d.Server.Flavor, strings.Trim(strings.Join(all, ","), ","))
}

// publishes returns an error where committed transactions do not get into the binlog, or without a GTID: there a position does not
// tell what is published.
func (d *Database) publishes() error { return d.vars.Problem(&Options{UnsafeSync: true}) }
