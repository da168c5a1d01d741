package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// partitionsAhead asks how many seconds a table's partitions reach ahead, if they are the daily ones that setup makes.
const partitionsAhead = `SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(),
		COALESCE(MAX(CASE WHEN partition_description <> 'MAXVALUE' THEN TRIM(BOTH '''' FROM partition_description) END), UTC_TIMESTAMP()))
	FROM information_schema.partitions WHERE table_schema = ? AND table_name = ?
	HAVING SUM(partition_name = 'pmax') = 1 AND MIN(partition_name REGEXP '^p(max|[0-9]{8})$') = 1`

func (c *checker) partitions(ctx context.Context) {
	for _, name := range c.opts.Tables {
		schema, table, _ := strings.Cut(name, ".")
		var seconds int64
		err := c.db.DB.QueryRowContext(ctx, partitionsAhead, schema, table).Scan(&seconds)
		switch {
		case errors.Is(err, sql.ErrNoRows): // not divided by day
			continue
		case err != nil:
			c.report.Info("partitions", "", "the partitions of %s cannot be read (%v)", name, err)
			continue
		}
		maintained := slices.ContainsFunc(c.opts.Maintained, func(n outbox.Name) bool { return n.String() == name })
		c.report.Partitions(name, time.Duration(seconds)*time.Second, maintained)
	}
	c.routines(ctx)
}

// routines verifies that the relay may maintain the partitions.
func (c *checker) routines(ctx context.Context) {
	for _, table := range c.opts.Maintained {
		may, err := c.db.MayMaintain(ctx, table)
		c.report.Routine("user "+c.db.Server.Role, outbox.MySQLRoutine(table).MySQL(), table.String(), may, err)
	}
}

// partition is a row of List's query: a partition with its number and bound, or what was taken out, with the rest of its
// comment, and whether that is as old as the table.
type partition struct {
	name         string
	n            sql.NullInt64
	bound, taken sql.NullString
	untouched    bool
}

// List returns the table's partitions and what was taken out of it, which only the routine shows to the relay's user. It also
// returns the time by the server's clock, by which created_at is set.
func (p *Partitions) List(ctx context.Context) (parts []cdc.Partition, now time.Time, err error) {
	if now, err = p.db.now(ctx); err != nil {
		return nil, now, err
	}
	found, err := p.read(ctx, "CALL "+p.routine.MySQL()+"('list', '')")
	if err != nil {
		return nil, now, p.changeError("list the partitions", err)
	}
	slices.SortFunc(found, func(a, b partition) int {
		return cmp.Or(cmp.Compare(a.n.Int64, b.n.Int64), strings.Compare(a.name, b.name))
	})
	var out []takenOut
	for _, f := range found {
		if f.taken.Valid {
			out = append(out, p.takenOut(f))
		} else if parts, err = p.attached(parts, f, now); err != nil {
			return nil, now, err
		}
	}
	if err := p.hideFirst(ctx, parts, now); err != nil {
		return nil, now, err
	}
	relayed, err := p.relayed(ctx, out)
	return append(parts, relayed...), now, err
}

func (d *Database) now(ctx context.Context) (now time.Time, err error) {
	var text string
	if err = d.DB.QueryRowContext(ctx, "SELECT DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%d %H:%i:%s')").Scan(&text); err == nil {
		now, err = time.Parse(time.DateTime, text)
	}
	if err != nil {
		err = fmt.Errorf("read the server's clock: %w", err)
	}
	return now, err
}

func (p *Partitions) read(ctx context.Context, query string) (list []partition, err error) {
	found, err := p.db.DB.QueryContext(ctx, query)
	if err != nil {
		return nil, err // the caller adds the context
	}
	defer func() { _ = found.Close() }()
	if columns, err := found.Columns(); err != nil || len(columns) != 5 {
		return nil, cmp.Or(err, errStale)
	}
	for found.Next() {
		var part partition
		if err := found.Scan(&part.name, &part.n, &part.bound, &part.taken, &part.untouched); err != nil {
			return nil, err // as above
		}
		list = append(list, part)
	}
	return list, found.Err() // as above
}

// attached adds a partition behind those before it, from whose bound on it has rows. One of the past counts as the day of its
// name, although the first also has all earlier rows, and one that was made late those of the days before.
func (p *Partitions) attached(before []cdc.Partition, f partition, now time.Time) ([]cdc.Partition, error) {
	part := cdc.Partition{Name: f.name}
	if f.bound.String == "MAXVALUE" {
		part.Default = true
		return append(before, part), nil
	}
	var err error
	if part.Until, err = time.Parse(time.DateOnly, strings.Trim(f.bound.String, "'")); err != nil {
		return nil, fmt.Errorf("read partitions of %s: bound of %s: %w", p.table, f.name, err)
	}
	part.Since = part.Until.Add(-24 * time.Hour)
	if n := len(before); n > 0 && part.Until.After(now) {
		part.Since = before[n-1].Until
	}
	return append(before, part), nil
}

// hideFirst makes an empty partition of days that have ended one without bounds: its rows were taken out, and it stays to
// take rows that come late.
func (p *Partitions) hideFirst(ctx context.Context, attached []cdc.Partition, now time.Time) error {
	if len(attached) == 0 {
		return nil
	}
	first := &attached[0]
	p.first = first.Name
	if first.Default || first.Until.After(now) {
		return nil
	}
	rows, err := p.count(ctx, first.Name, 1)
	if err == nil && rows == 0 {
		first.Since, first.Until, first.Default = time.Time{}, time.Time{}, true
	}
	return err
}

// DefaultRows counts the rows of the last partition, up to 100,000.
func (p *Partitions) DefaultRows(ctx context.Context) (int64, error) {
	return p.count(ctx, outbox.MySQLMaxPartition, 100_000)
}

func (p *Partitions) count(ctx context.Context, part string, limit int) (n int64, err error) {
	err = p.db.DB.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM %s PARTITION (%s) LIMIT %d) AS counted",
		p.table.MySQL(), QuoteName(part), limit)).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the rows of %s in partition %s: %w", p.table, part, err)
	}
	return n, nil
}

// takenOut is a table that was a partition.
type takenOut struct {
	cdc.Partition

	// end is a position behind all its rows, "" if it is not known.
	end string
}

var takenComment = regexp.MustCompile(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d), noted \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:, GTID (.*))?$`)

func (p *Partitions) takenOut(f partition) takenOut {
	t := takenOut{Partition: cdc.Partition{Name: p.table.Schema + "." + f.name, Out: true}}
	m := takenComment.FindStringSubmatch(f.taken.String)
	if m == nil || !f.untouched {
		t.Kept = cdc.RestoredPartition(t.Name)
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
	saved := func() relayed { return p.db.relayed(ctx, p.db.DB, p.source, p.load) }
	done := saved()
	if slices.ContainsFunc(out, func(t takenOut) bool { return t.end == "" }) {
		for since := time.Now(); done.unknown == nil && !done.passed(now) && time.Since(since) < relayWait && cdc.Sleep(ctx, 50*time.Millisecond) == nil; {
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
