package main

import (
	"context"
	"fmt"
	"strings"
)

// mapsResult has, for each way to make records, the drain as a part of the native one on the same rows.
type mapsResult map[string]mappedDrain

type mappedDrain struct {
	Rate float64 `json:"rate"`
	CPU  float64 `json:"cpu"`
}

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

// mapped drains rows natively and in each of the ways in turn. The first round is not counted.
func (s *stand) mapped(ctx context.Context, rows, rounds int) (*mapsResult, error) {
	res := mapsResult{}
	for _, m := range mappings() {
		d, err := s.mapping(ctx, "maps_"+m.name, m, rows, rounds)
		if err != nil {
			return nil, err
		}
		res[m.name] = d
	}
	return &res, nil
}

func (s *stand) mapping(ctx context.Context, database string, m mapping, rows, rounds int) (res mappedDrain, err error) {
	var slots []string
	for i := range 2 * (rounds + 1) {
		slots = append(slots, fmt.Sprintf("%s_%d", database, i))
	}
	conn, err := s.database(ctx, database, slots...)
	if err != nil {
		return res, err
	}
	defer conn.Close(ctx)
	if err := fill(ctx, conn, rows, 10); err != nil {
		return res, err
	}
	var rates, cpu []float64
	for i := range rounds + 1 {
		var of, to drained
		rate, err := ratioOf(i%2 == 1, func() (_ drained, err error) {
			of, err = s.drainMapped(ctx, database, slots[2*i], m.table, m.routes, rows)
			return of, err
		}, func() (_ drained, err error) {
			to, err = s.drainMapped(ctx, database, slots[2*i+1], "", "", rows)
			return to, err
		})
		if err != nil {
			return res, err
		}
		if i > 0 {
			rates, cpu = append(rates, rate), append(cpu, of.CPUPerEvent/to.CPUPerEvent)
		}
	}
	return mappedDrain{median(rates), median(cpu)}, dropSlots(ctx, conn, slots)
}

func (s *stand) drainMapped(ctx context.Context, database, slot, table, routes string, n int) (drained, error) {
	topic, err := s.topic(ctx)
	if err != nil {
		return drained{}, err
	}
	s.table = table
	defer func() { s.table = "" }()
	addr := s.listen()
	path, err := s.configure(database, slot, routes+topic, addr)
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
		d := (*m)[of.name]
		row(of.what+": drain against the native one", fmt.Sprintf("%.2f (%.2f of its CPU)", d.Rate, d.CPU), fmt.Sprint(of.reach), d.Rate >= of.reach)
	}
}
