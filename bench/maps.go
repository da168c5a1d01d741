package main

import (
	"context"
	"fmt"
	"strings"
)

// mapsResult has, for each way to make records, the rate of a drain as a part of that of the native one on the same rows.
type mapsResult map[string]float64

// mapping is a table with routes that costs more than the native one does.
type mapping struct {
	name, what, table, routes string
	reach                     float64
}

func mappings() []mapping {
	return []mapping{
		{"rules", "ten rules", "", strings.Repeat("unused, match: {aggregate_type: Invoice, tenant_id: eu-.*}}, {topic: ", 9), 0.9},
		{"paths", "parts by JSON paths", `, columns: {event_id: event_id, aggregate_type: aggregate_type, aggregate_id: {json: payload, path: $.order},
  event_type: {const: OrderPlaced}, tenant_id: {json: payload, path: $.tenant}, payload: payload, occurred_at: occurred_at}`, "", 0.7},
		{"value", "a value of parts", `, value: [{name: id, column: event_id}, {name: order, json: payload, path: $.order}, {name: at, column: occurred_at}]`, "", 0.7},
		{"plain", "the format plain", ", format: plain", "", 0.95},
		{"structured", "the format cloudevents-json", ", format: cloudevents-json", "", 0.7},
	}
}

// mapped drains the same rows natively and in each of the ways in turn. The first round is not counted.
func (s *stand) mapped(ctx context.Context, rows, rounds int) (*mapsResult, error) {
	var slots []string
	for i := range rounds + 1 {
		for _, m := range mappings() {
			slots = append(slots, fmt.Sprintf("maps_%s_%d", m.name, i), fmt.Sprintf("maps_%s_native_%d", m.name, i))
		}
	}
	conn, err := s.database(ctx, "maps", slots...)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	if err := fill(ctx, conn, rows, 10); err != nil {
		return nil, err
	}
	ratios, res := map[string][]float64{}, mapsResult{}
	for i := range rounds + 1 {
		for j, m := range mappings() {
			at := 2 * (i*len(mappings()) + j)
			special := func() (drained, error) { return s.drainMapped(ctx, slots[at], m.table, m.routes, rows) }
			native := func() (drained, error) { return s.drainMapped(ctx, slots[at+1], "", "", rows) }
			ratio, err := ratioOf(i%2 == 1, special, native)
			if err != nil {
				return nil, err
			}
			if i > 0 {
				ratios[m.name] = append(ratios[m.name], ratio)
			}
		}
	}
	for name, list := range ratios {
		res[name] = median(list)
	}
	return &res, dropSlots(ctx, conn, slots)
}

func (s *stand) drainMapped(ctx context.Context, slot, table, routes string, n int) (drained, error) {
	topic, err := s.topic(ctx)
	if err != nil {
		return drained{}, err
	}
	s.table = table
	defer func() { s.table = "" }()
	addr := s.listen()
	path, err := s.configure("maps", slot, routes+topic, addr)
	if err != nil {
		return drained{}, err
	}
	return s.timeDrain(ctx, path, addr, slot, n, []string{topic})
}

// rows prints the ratios.
func (m *mapsResult) rows(row func(what, found, reach string, ok bool)) {
	if m == nil {
		return
	}
	for _, of := range mappings() {
		ratio := (*m)[of.name]
		row(of.what+": drain against the native one", fmt.Sprintf("%.2f", ratio), fmt.Sprint(of.reach), ratio >= of.reach)
	}
}
