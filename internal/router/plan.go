package router

import (
	"fmt"
	"slices"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// plan is the compiled schema of a table.
type plan struct {
	source *cdc.Table
	table  *table
	width  int // columns in a row

	eventID, aggregateType, aggregateID, topic, partitionKey, headers, payload column

	attributes []attribute
	tombstones bool
	incomplete *fault // why no row of this schema makes a record; nil: it does

	slots  []column // what routes read
	topics map[string]topic

	// headersPerRow and scratchPerRow are the averages of the last batch, to reserve memory for the next one at once.
	// Growing by appending would take up to twice the memory in every pooled Routed.
	headersPerRow, scratchPerRow int
}

func (p *plan) reserve(dst *cdc.Routed, rows int) {
	dst.Messages = slices.Grow(dst.Messages, rows)
	dst.Headers = slices.Grow(dst.Headers, rows*p.headersPerRow)
	dst.Scratch = slices.Grow(dst.Scratch, rows*p.scratchPerRow)
}

func (p *plan) learn(dst *cdc.Routed, rows int) {
	p.headersPerRow = (len(dst.Headers) + rows - 1) / rows
	p.scratchPerRow = min((len(dst.Scratch)+rows-1)/rows, maxScratchPerRow)
}

// maxScratchPerRow keeps one large rendered value from reserving as much for every row.
const maxScratchPerRow = 512

// column is a column of the rows. The zero value means that the column is absent.
type column struct {
	number  int32 // from 1; 0 means absent
	form    cdc.Form
	ascii   bool // rendered by the relay
	notNull bool
	name    string
}

// newColumn returns the column at index i of t.
func newColumn(t *cdc.Table, i int) column {
	c := column{number: int32(i + 1), form: t.Columns[i].Form, name: t.Columns[i].Name}
	switch c.form {
	case cdc.FormUUID, cdc.FormMicros2000, cdc.FormLocalMicros2000, cdc.FormInt, cdc.FormBool:
		c.ascii = true
	default:
	}
	return c
}

func (c *column) exists() bool { return c.number > 0 }

// attribute is a column that becomes a header.
type attribute struct {
	column

	header []byte
	role   outbox.Role
}

// compile finds the columns of a table that records and routes need.
func (r *Router) compile(t *cdc.Table) (*plan, error) {
	conf := r.tables[t.String()]
	if conf == nil {
		return nil, cdc.Stop(cdc.ClassConfig, "unknown_table", fmt.Errorf(
			"table %s sends rows but is not configured", t), "add it under tables, or stop publishing its rows in the database")
	}
	p := &plan{
		source: t, table: conf, width: len(t.Columns), tombstones: conf.layout.Tombstones(),
		topics: make(map[string]topic),
	}
	var roles [outbox.Roles]column
	for role := range outbox.Roles {
		if name := conf.layout.Column(role); conf.layout.MustExist(role) && p.added(name) {
			roles[role] = column{name: name}
			continue
		}
		c, err := conf.column(t, role)
		if err != nil {
			return nil, cdc.Stop(cdc.ClassConfig, cdc.MissingColumn, err, "")
		}
		if err := checkCharset(t, c); err != nil {
			return nil, err
		}
		roles[role] = c
	}
	p.eventID, p.aggregateType, p.aggregateID = roles[outbox.EventID], roles[outbox.AggregateType], roles[outbox.AggregateID]
	p.topic, p.partitionKey = roles[outbox.Topic], roles[outbox.PartitionKey]
	p.headers, p.payload = roles[outbox.Headers], roles[outbox.Payload]
	for _, a := range attributes() {
		if roles[a.role].exists() {
			p.attributes = append(p.attributes, attribute{roles[a.role], r.keys.attributes[a.role], a.role})
		}
	}
	return p, r.findSlots(p)
}

// added reports whether the table has a column by now that it did not have when rows of this schema were written: then there is nothing
// to correct in the table or the configuration, and the rows are to blame. The first such column is noted.
func (p *plan) added(name string) bool {
	now := p.source.Now
	if now == nil || p.source.Index(name) >= 0 || now.Index(name) < 0 {
		return false
	}
	if p.incomplete == nil {
		p.incomplete = withoutColumn(name, p.source)
	}
	return true
}

// checkCharset refuses a column in a character set that the source does not know. Unused columns are not checked.
func checkCharset(t *cdc.Table, c column) error {
	if c.form != cdc.FormForeign {
		return nil
	}
	return cdc.Stop(cdc.ClassConfig, "charset", fmt.Errorf(
		"column %s of %s is in a character set that the relay does not know", c.name, t),
		"convert it to utf8mb4, ascii or latin1 (ALTER TABLE ... MODIFY ... CHARACTER SET utf8mb4), or name another column")
}

// column returns the column of a role.
func (conf *table) column(t *cdc.Table, role outbox.Role) (column, error) {
	name := conf.layout.Column(role)
	i := -1
	if name != "" {
		i = t.Index(name)
	}
	if i < 0 && conf.layout.MustExist(role) {
		return column{}, cdc.Fixable(fmt.Sprintf("add it to the table, or name the column that holds the %s under %s.columns", role, conf.setting),
			"column %s of %s is missing", name, t)
	}
	if i < 0 {
		return column{name: name}, nil
	}
	c := newColumn(t, i)
	c.notNull = conf.layout.NotNull(role)
	if role == outbox.OccurredAt && !isTime(c.form) {
		return column{}, cdc.Fixable(fmt.Sprintf("name a time column under %s.columns.%s", conf.setting, role), "column %s of %s is not a time", name, t)
	}
	return c, nil
}

func isTime(f cdc.Form) bool {
	switch f {
	case cdc.FormText, cdc.FormTimestampText, cdc.FormMicros2000, cdc.FormLocalMicros2000:
		return true
	default:
		return false
	}
}

// findSlots finds the columns that routes read: the column of that role, or else of that name. With several tables a
// route may be meant for another table, so a route whose column is missing does not match. With one table a missing
// column is an error.
func (r *Router) findSlots(p *plan) error {
	p.slots = make([]column, len(r.names))
	for slot, name := range r.names {
		wanted := p.table.named(name)
		i := p.source.Index(wanted)
		switch {
		case i >= 0:
			p.slots[slot] = newColumn(p.source, i)
			if err := checkCharset(p.source, p.slots[slot]); err != nil {
				return err
			}
		case len(r.tables) == 1 && p.added(wanted):
		case len(r.tables) == 1:
			return cdc.Stop(cdc.ClassConfig, cdc.MissingColumn, fmt.Errorf(
				"%s: %s has no column %s", r.settingOf(slot), p.source, wanted), "add it to the table, or change the route")
		default:
			p.slots[slot] = column{name: wanted}
		}
	}
	return nil
}
