package mysql

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

var takenComment = regexp.MustCompile(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d), noted \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:, GTID (.*))?$`)

func (p *Partitions) takenOut(f partition) takenOut {
	schema, _, _ := strings.Cut(p.Table, ".")
	t := takenOut{Partition: cdc.Partition{Name: schema + "." + f.name, Out: true}}
	m := takenComment.FindStringSubmatch(f.taken.String)
	if m == nil || !f.untouched {
		t.Kept = cdc.Fixable("publish what consumers miss of it, and drop it", "%s was taken out in a database that was dumped and restored since, or its comment was edited", t.Name)
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
	now, err := p.db.end(ctx, p.db.DB)
	if err != nil {
		return nil, err
	}
	saved := func() relayed { return p.db.relayed(ctx, p.db.DB, p.Source, p.Load) }
	done := saved()
	if slices.ContainsFunc(out, func(t takenOut) bool { return t.end == "" }) {
		for since := time.Now(); done.unknown == nil && !done.passed(now) && time.Since(since) < relayWait && pause(ctx) == nil; {
			done = saved()
		}
	}
	parts := make([]cdc.Partition, len(out))
	for i, t := range out {
		parts[i] = t.Partition
		if parts[i].Kept == nil {
			parts[i].Relayed, parts[i].Kept = t.before(p.db.Server.Flavor, now, done)
		}
	}
	return parts, nil
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

// before reports whether everything in it is relayed, or why that is not known.
func (t *takenOut) before(f cdc.Flavor, now Set, done relayed) (bool, error) {
	end := now
	if t.end != "" {
		var err error
		if end, err = ParseSet(f, t.end); err != nil {
			return false, err
		}
	}
	return done.passed(end), done.unknown
}
