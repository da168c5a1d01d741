package binlog

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// takenOut is a table that was a partition.
type takenOut struct {
	cdc.Partition

	// end is a position behind all its rows, "" if it is not known.
	end string
}

var takenComment = regexp.MustCompile(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:, GTID (.*))?$`)

func (p *Partitions) takenOut(f partition) takenOut {
	schema, _, _ := strings.Cut(p.Table, ".")
	t := takenOut{Partition: cdc.Partition{Name: schema + "." + f.name, Out: true}}
	m := takenComment.FindStringSubmatch(f.taken.String)
	if m == nil {
		t.Kept = cdc.Fixable("drop the table once its events are published", "the comment of table %s was edited", t.Name)
		return t
	}
	t.Until, _ = time.Parse(time.DateTime, m[1])
	t.Since, t.Default, t.end = t.Until.Add(-24*time.Hour), t.Until.Truncate(24*time.Hour) != t.Until, m[2]
	return t
}

// relayed compares the ends of what was taken out with the checkpoint. Where the end is not known, because the GTID set is too
// long for a comment or a pass ended before it was noted, it is the end of the binlog now, which is later.
func (p *Partitions) relayed(ctx context.Context, out []takenOut) ([]cdc.Partition, error) {
	if len(out) == 0 {
		return nil, nil
	}
	now, err := p.logged(ctx)
	if err != nil {
		return nil, err
	}
	saved, unknown := p.saved(ctx)
	if slices.ContainsFunc(out, func(t takenOut) bool { return t.end == "" }) {
		for since := time.Now(); unknown == nil && !saved.covers(now) && time.Since(since) < relayWait && pause(ctx) == nil; {
			saved, unknown = p.saved(ctx)
		}
	}
	parts := make([]cdc.Partition, len(out))
	for i, t := range out {
		parts[i] = t.Partition
		if parts[i].Kept == nil {
			parts[i].Relayed, parts[i].Kept = t.before(p.db.Server.Flavor, now, saved, unknown)
		}
	}
	return parts, nil
}

// logged returns the end of the binlog. Unlike [readServer] it needs no right, which an owner may lack.
func (p *Partitions) logged(ctx context.Context) (gtidSet, error) {
	query := "SELECT @@GLOBAL.gtid_executed"
	if p.db.Server.Flavor == cdc.MariaDB {
		query = "SELECT @@GLOBAL.gtid_binlog_pos"
	}
	sets, err := firstColumn(ctx, p.db.db, "read where the binlog ends", query)
	if err != nil {
		return nil, err
	}
	return parseSet(p.db.Server.Flavor, sets[0])
}

// relayWait is how long the relay may take to save the position of what was committed a moment ago.
const relayWait = 2 * time.Second

func pause(ctx context.Context) error {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// before reports whether everything in it is before the saved position, or why that is not known.
func (t *takenOut) before(f cdc.Flavor, now, saved gtidSet, unknown error) (bool, error) {
	if unknown != nil {
		return false, unknown
	}
	end := now
	if t.end != "" {
		var err error
		if end, err = parseSet(f, t.end); err != nil {
			return false, err
		}
	}
	return saved.covers(end), nil
}

// saved returns the position of the checkpoint.
func (p *Partitions) saved(ctx context.Context) (gtidSet, error) {
	c, found, err := p.Load(ctx)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return parseSet(p.db.Server.Flavor, "")
	case !c.Source.Same(p.Source):
		return nil, cdc.Fixable("start the relay, which compares it with the server", "the checkpoint is of another source (%s, database %s)", c.Source.SystemID, c.Source.Database)
	}
	return parseSet(p.db.Server.Flavor, string(c.Progress.Position))
}
