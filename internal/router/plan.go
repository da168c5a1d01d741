package router

import (
	"fmt"
	"slices"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/record"
)

// plan is what the router does with the rows of a table's schema.
type plan struct {
	*outbox.Plan

	record    record.Encoder
	emptyKeys bool              // see recordKey
	only      []condition       // of the rows that are published
	slots     []outbox.Accessor // what routes read
	topics    cache[topic]
	// placements are those of the routes; nil for a route without one, and for one that takes no row of this schema.
	placements []*placement

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

// Describe implements [cdc.Describer]: as far as the row can be read.
func (p *plan) Describe(b *cdc.Batch, row int) (d cdc.Described) {
	var r outbox.Row
	r.Start(p.Plan, b, nil)
	r.Move(row)
	d.Type, _ = r.Text(&p.Parts[outbox.EventType])
	d.AggregateType, _ = r.Text(&p.Parts[outbox.AggregateType])
	d.Tenant, _ = r.Text(&p.Parts[outbox.TenantID])
	return d
}

// compile finds the columns of a table that records and routes need.
func (r *Router) compile(t *cdc.Table) (*plan, error) {
	conf := r.tables[t.String()]
	if conf == nil {
		return nil, cdc.Stop(cdc.ClassConfig, "unknown_table", fmt.Errorf(
			"table %s sends rows but is not configured", t), "add it under tables, or stop publishing its rows in the database")
	}
	parts, err := conf.layout.Plan(t, conf.setting)
	if err != nil {
		return nil, err
	}
	p := &plan{Plan: parts, emptyKeys: conf.shape.Format == record.FormatPlain}
	if p.record, err = record.New(conf.shape, parts, conf.setting, conf.source); err != nil {
		return nil, err
	}
	if err := p.findConditions(conf); err != nil {
		return nil, err
	}
	if err := r.findSlots(p, conf); err != nil {
		return nil, err
	}
	return p, r.findPlacements(p)
}

// findSlots finds what routes read: the part of that role, or else the column of that name. With several tables a
// route may be meant for another table, so a route whose column is missing does not match. With one table a missing
// column is an error. What only routes read that take no row of the schema is not read: it would make rows malformed for nothing.
func (r *Router) findSlots(p *plan, conf *table) error {
	p.slots = make([]outbox.Accessor, len(r.names))
	illegible := make([]error, len(r.names))
	for slot, name := range r.names {
		a, missing, err := p.Accessor(conf.read(name))
		if err != nil && !a.Exists() {
			return err
		}
		if p.slots[slot], illegible[slot] = a, err; err != nil || missing == "" || len(r.tables) > 1 || p.Added(missing) {
			continue
		}
		return cdc.Stop(cdc.ClassConfig, cdc.MissingColumn, fmt.Errorf(
			"%s: %s has no column %s", r.settingOf(slot, nil), p.Table, missing), "add it to the table, or change the route")
	}
	for slot, err := range illegible {
		if r.settingOf(slot, p) == "" {
			p.slots[slot] = outbox.Accessor{}
		} else if err != nil {
			return err
		}
	}
	return nil
}
