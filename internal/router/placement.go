package router

import (
	"fmt"
	"maps"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// placement is what a route says of its records beside the topic, for a schema.
type placement struct {
	key, partition *outbox.Accessor // nil: the table's key; the key's partition
}

// placed returns the parts that the route has, by their settings.
func (c *route) placed() map[string]*outbox.Part {
	parts := map[string]*outbox.Part{c.setting + ".key": c.key, c.setting + ".partition": c.partition}
	maps.DeleteFunc(parts, func(_ string, part *outbox.Part) bool { return part == nil })
	return parts
}

// findPlacements finds what keys and partitions of routes read. A column that is missing stops the relay, unless no row of the table takes
// the route: NULL in its place would put events of one key into any partition.
func (r *Router) findPlacements(p *plan) error {
	p.placements = make([]*placement, len(r.routes))
	for i := range r.routes {
		c := &r.routes[i]
		if c.key == nil && c.partition == nil || !c.takesRowsOf(p) {
			continue
		}
		key, err := r.findPlace(p, c.key, c.setting+".key")
		if err != nil {
			return err
		}
		partition, err := r.findPlace(p, c.partition, c.setting+".partition")
		if err != nil {
			return err
		}
		p.placements[i] = &placement{key, partition}
	}
	return nil
}

// takesRowsOf reports whether the route may match a row of the schema.
func (c *route) takesRowsOf(p *plan) bool {
	for _, m := range c.match {
		a := &p.slots[m.slot]
		if text, constant := a.Constant(); !a.Exists() || constant && !m.re.Match(text) {
			return false
		}
	}
	return true
}

// findPlace finds what a part reads; nil for no part.
func (r *Router) findPlace(p *plan, part *outbox.Part, setting string) (*outbox.Accessor, error) {
	if part == nil {
		return nil, nil //nolint:nilnil // there is nothing to read
	}
	a, missing, err := p.Key(part)
	if err != nil {
		return nil, err
	}
	a.Name = setting + " (" + a.Name + ")"
	if missing == "" || p.Added(missing) {
		return &a, nil
	}
	fix := "name one that it has (" + strings.Join(columnNames(p.Table), ", ") + ")"
	if len(r.tables) > 1 {
		fix += ", or keep the table away from the route with table in its match"
	}
	return nil, cdc.Stop(cdc.ClassConfig, cdc.MissingColumn, fmt.Errorf("%s: %s has no column %s", setting, p.Table, missing), fix)
}

func columnNames(t *cdc.Table) []string {
	names := make([]string, len(t.Columns))
	for i := range t.Columns {
		names[i] = t.Columns[i].Name
	}
	return names
}

// recordKey returns the record's key, nil for none: that of the route, if it has one, else the table's. An empty key is none, except in plain
// records, which say what the row says: those of one table with an empty key share a partition, as Debezium's do, and none waits for another's dead letter.
func (e *encoder) recordKey(at *placement) (key []byte, f *outbox.Fault) {
	if at != nil && at.key != nil {
		key, f = e.row.Text(at.key)
	} else if key, f = e.row.Text(&e.p.Parts[outbox.PartitionKey]); f == nil && len(key) == 0 {
		key, f = e.row.Text(&e.p.Parts[outbox.AggregateID])
	}
	if len(key) == 0 && !e.p.emptyKeys {
		return nil, f
	}
	return key, f
}

// partition returns one more than the partition that the route names, 0 for none.
func (e *encoder) partition(at *placement) (int32, *outbox.Fault) {
	if at == nil || at.partition == nil {
		return 0, nil
	}
	text, f := e.row.Text(at.partition)
	if f != nil || len(text) == 0 {
		return 0, f
	}
	id, ok := outbox.ParsePartition(text)
	if !ok {
		return 0, outbox.Bad(at.partition, "is not the number of a partition (0, 1, 2 and so on)")
	}
	return id + 1, nil
}
