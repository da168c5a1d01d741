package main

import (
	"context"
	"fmt"
)

// onceResult compares exactly-once with at-least-once delivery: the same rows, drained in turn.
type onceResult struct {
	Least drainResult `json:"at_least_once"`
	Once  drainResult `json:"exactly_once"`
	Ratio float64     `json:"ratio"` // exactly-once to at-least-once: median of the rounds
}

// exactlyOnce drains the same rows with both kinds of delivery. The first drain of each is not counted.
func (s *stand) exactlyOnce(ctx context.Context, rows, rounds int) (*onceResult, error) {
	defer func() { s.once = false }()
	const perTx = 10
	res := &onceResult{Least: drainResult{Rows: rows, PerTx: perTx}, Once: drainResult{Rows: rows, PerTx: perTx}}
	var slots []string
	for i := range rounds + 1 {
		slots = append(slots, fmt.Sprintf("once_least_%d", i), fmt.Sprintf("once_once_%d", i))
	}
	conn, err := s.database(ctx, "once", slots...)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	if err := fill(ctx, conn, rows, perTx); err != nil {
		return nil, err
	}
	var ratios []float64
	for i := range rounds + 1 {
		least, err := s.drainAs(ctx, false, slots[2*i], rows)
		if err != nil {
			return nil, err
		}
		once, err := s.drainAs(ctx, true, slots[2*i+1], rows)
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first warms up
			res.Least.Relay, res.Once.Relay = append(res.Least.Relay, least), append(res.Once.Relay, once)
			ratios = append(ratios, once.Rate/least.Rate)
		}
	}
	res.Least.sum()
	res.Once.sum()
	res.Ratio = median(ratios)
	return res, dropSlots(ctx, conn, slots)
}

func (s *stand) drainAs(ctx context.Context, once bool, slot string, rows int) (drained, error) {
	s.once = once
	if once {
		if err := s.positions(ctx, slot); err != nil {
			return drained{}, err
		}
	}
	return s.relayDrain(ctx, "once", slot, rows)
}

// positions creates the topic of positions of the relay whose configuration has that name.
func (s *stand) positions(ctx context.Context, name string) error {
	return s.kafka.CreateTopic(ctx, positionTopic(name), 1, map[string]string{"cleanup.policy": "compact"})
}

func positionTopic(name string) string { return "positions-" + name }
