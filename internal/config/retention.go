package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Retention says how old events are removed.
type Retention struct {
	// The age at which an event is removed, such as 30d, at least one day, once it is published and the position is saved. By created_at, else occurred_at. Empty: never.
	Keep string `yaml:"keep" jsonschema:"example=30d"`
	// Tables that setup created have daily partitions, which are created ahead and dropped as a whole. false: they have none, and their rows are deleted, as those of tables with columns are.
	Partitions bool `yaml:"partitions" jsonschema:"default=true"`
	// How often the leader looks for old events and partitions, 1h at most.
	Every time.Duration `yaml:"every" jsonschema:"default=1h"`
	// Days after today that have a partition, 4 at least.
	Ahead int `yaml:"ahead" jsonschema:"minimum=4,maximum=366,default=14"`
	// false: detach and keep old partitions, for an archive.
	Drop bool `yaml:"drop" jsonschema:"default=true"`
	// Rows that are deleted in one transaction.
	Batch int `yaml:"batch" jsonschema:"minimum=1,maximum=10000,default=1000"`
}

// minAge keeps a slip of the pen from removing today's events.
const minAge = 24 * time.Hour

// Age returns Keep as a duration; 0 if nothing is removed.
func (r *Retention) Age() time.Duration {
	d, _ := ParseAge(r.Keep) // valid by now
	return d
}

// Partitioned reports whether the tables that setup created have partitions that the relay maintains.
func (c *Config) Partitioned() bool { return c.Retention != nil && c.Retention.Partitions }

// Purges reports whether old rows of any table are deleted.
func (c *Config) Purges() bool {
	return slices.ContainsFunc(c.Tables, func(t Table) bool { return c.Purged(&t) })
}

// Purged reports whether old rows of a table are deleted.
func (c *Config) Purged(t *Table) bool {
	return c.Retention != nil && c.Retention.Keep != "" && (!c.Retention.Partitions || t.Columns != nil)
}

// ParseAge parses an age: days ("30d"), or a duration as Go writes it. "" is 0.
func ParseAge(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil || n == 0 {
			return 0, fmt.Errorf("%q is not a number of days", s)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not an age such as 30d or 36h", s)
	}
	return d, nil
}

func (d *document) retention(c *Config) {
	if c.Retention == nil {
		return
	}
	if c.Retention.Every > time.Hour {
		d.report("retention.every", "make it 1h or shorter", "is longer than an hour, in which the alert CdcRelayMaintenanceFailing expects a pass")
	}
	const path = "retention.keep"
	switch age, err := ParseAge(c.Retention.Keep); {
	case err != nil:
		d.wrong(path, "an age such as 30d or 36h, or nothing", d.text(path))
	case age > 0 && age < minAge:
		d.report(path, "make it 1d or longer", "is shorter than a day; it is %s", d.text(path))
	}
	for i := range c.Tables {
		if t := &c.Tables[i]; c.Purged(t) && t.Columns != nil && t.Columns.CreatedAt.column() == "" && t.Columns.OccurredAt.column() == "" {
			d.report(item("tables", i)+".columns", "add created_at with the column that holds the time of the INSERT", "maps neither created_at nor occurred_at, so retention.keep does not know which rows are old")
		}
	}
}
