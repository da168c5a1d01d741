package config

import "time"

// Retention says how old events are removed from tables without partitions.
type Retention struct {
	// Deletes old rows in batches.
	Delete Delete `yaml:"delete" jsonschema:"required"`
}

// Delete says which rows are old and how fast they are deleted.
type Delete struct {
	// The age at which a row is deleted, such as 30d, at least one day, once its event is published and the position is saved. By created_at, else occurred_at.
	OlderThan string `yaml:"older_than" jsonschema:"required,minLength=1,example=30d"`
	// Rows in one transaction.
	Batch int `yaml:"batch" jsonschema:"minimum=1,maximum=10000,default=1000"`
	// The pause between two batches.
	Pause time.Duration `yaml:"pause" jsonschema:"default=100ms" jsonschema_extras:"x-zero=true"`
	// How often the leader looks for old rows.
	Every time.Duration `yaml:"every" jsonschema:"default=1h"`
}

// Age returns OlderThan as a duration.
func (r *Delete) Age() time.Duration {
	d, _ := ParseAge(r.OlderThan) // valid by now
	return d
}

// Purged reports whether retention.delete applies to a table: with partitions, to those of other software only.
func (c *Config) Purged(t *Table) bool {
	return c.Retention != nil && (c.Partitions == nil || t.Columns != nil)
}

func (d *document) retention(c *Config) {
	if c.Retention == nil {
		return
	}
	const path = "retention.delete.older_than"
	switch age, err := ParseAge(c.Retention.Delete.OlderThan); {
	case c.Retention.Delete.OlderThan == "": // reported
	case err != nil:
		d.wrong(path, "an age such as 30d or 36h", d.text(path))
	case age < minTTL:
		d.report(path, "make it 1d or longer; then `cdc-relay retention run --older-than "+c.Retention.Delete.OlderThan+" --force` deletes rows once", "is shorter than a day; it is %s", d.text(path))
	}
	for i := range c.Tables {
		if t := &c.Tables[i]; c.Purged(t) && t.Columns != nil && t.Columns.CreatedAt.column() == "" && t.Columns.OccurredAt.column() == "" {
			d.report(item("tables", i)+".columns", "add created_at with the column that holds the time of the INSERT", "maps neither created_at nor occurred_at, so retention.delete does not know which rows are old")
		}
	}
}
