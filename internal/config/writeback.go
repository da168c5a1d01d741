package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// WriteBack says how rows are marked whose events are published, for software that reads a status of delivery.
type WriteBack struct {
	// SQL condition for rows that are not published yet, in-progress and failed ones included. No time conditions.
	Pending string `yaml:"pending" jsonschema:"required,minLength=1,example=status = 'NEW'"`
	// Columns to set once the event is published and its position saved, so that the row is not pending: each to a text or {sql: now()}.
	Set map[string]Assigned `yaml:"set" jsonschema:"required"`
	// The same for dead letters and rows that wait behind one. Default: no change.
	OnDeadLetter map[string]Assigned `yaml:"on_dead_letter,omitempty"`
}

// Assigned is what a column is set to: a text, which the database converts to the column's type, or an expression.
type Assigned struct {
	// A text.
	Value string `yaml:"value,omitempty"`
	// An expression in the database's SQL, which runs with the time zone UTC.
	SQL string `yaml:"sql,omitempty" jsonschema:"example=now()"`
}

// MarshalYAML writes a text alone as text.
func (a Assigned) MarshalYAML() (any, error) {
	if a.SQL == "" {
		return a.Value, nil
	}
	type plain Assigned
	return plain(a), nil
}

// writeBack checks what would mark rows whose event was never published.
func (d *document) writeBack(c *Config) {
	for i := range c.Tables {
		t := &c.Tables[i]
		if t.WriteBack == nil {
			continue
		}
		path := item("tables", i) + ".write_back"
		d.assigned(path+".set", t.WriteBack.Set)
		if t.WriteBack.OnDeadLetter != nil {
			d.assigned(path+".on_dead_letter", t.WriteBack.OnDeadLetter)
			if !c.DeadLetter.On() {
				d.report(path+".on_dead_letter", "remove it, or turn dead letters on with one of the policies under errors", "has no effect, because there are no dead letters")
			}
		}
		if len(t.WriteBack.Set) == 0 {
			d.report(path+".set", "name a column of the condition, such as {status: SENT}", "sets nothing, so that rows would stay pending")
		}
		if len(t.Only) > 0 {
			d.report(path, "remove it, or only", "is set beside only: a row that only leaves out is not published, and would be marked as soon as it is pending")
		}
		if c.Checkpoint.Redis == nil && c.Checkpoint.File == "" && c.Delivery != ExactlyOnce {
			d.report(path, "set checkpoint.redis, or checkpoint.file", "needs a checkpoint, which tells that no row is pending from before the first position")
		}
		d.noneDropped(&c.Errors, path)
	}
}

func (d *document) noneDropped(e *Errors, path string) {
	if len(e.Skip) > 0 {
		d.report("errors.skip", "remove it once the relay has passed these events, or remove "+path, "names events that are not published, and %s would mark their rows as published", path)
	}
	policies := e.bySetting()
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		if *policies[name] == cdc.PolicyDrop {
			d.report("errors."+name, "make it dead_letter or stop, or remove "+path, "drops events, and %s would mark their rows as published", path)
		}
	}
}

func (d *document) assigned(path string, set map[string]Assigned) {
	for column, to := range set {
		if at := dotted(path, column); to.Value != "" && to.SQL != "" {
			d.report(at, "keep one of them", "has both a value and sql")
		} else if strings.TrimSpace(column) == "" {
			d.report(at, "name a column", "is an empty name")
		}
	}
}
