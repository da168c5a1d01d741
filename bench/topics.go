package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topicsResult compares one topic with many: the same rows, drained in turn.
type topicsResult struct {
	Few   drainResult `json:"one_topic"`
	Many  drainResult `json:"many_topics"`
	Ratio float64     `json:"ratio"` // many topics to one: median of the rounds
}

const (
	manyTopics     = 500
	manyPartitions = 4
	manyPayload    = 300
	// manyRoute derives the topic from the aggregate type, which manyKind sets.
	manyRoute = "bench-many-${aggregate_type}"
)

// manyKind is an SQL expression for the aggregate type of row i of transaction t: topics are equally frequent and mixed.
const manyKind = "(((t::bigint * 10 + i) * 104729) % 500)::text"

// manyTopics drains the same rows to one topic and to many, with default settings. The first drain of each is not counted.
func (s *stand) manyTopics(ctx context.Context, rows, rounds int) (*topicsResult, error) {
	const perTx = 10
	res := &topicsResult{Few: drainResult{Rows: rows, PerTx: perTx}, Many: drainResult{Rows: rows, PerTx: perTx}}
	topics, err := s.makeMany(ctx)
	if err != nil {
		return nil, err
	}
	var slots []string
	for i := range rounds + 1 {
		slots = append(slots, fmt.Sprintf("topics_few_%d", i), fmt.Sprintf("topics_many_%d", i))
	}
	conn, err := s.database(ctx, "topics", slots...)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	if err := fillMany(ctx, conn, rows, perTx); err != nil {
		return nil, err
	}
	var ratios []float64
	for i := range rounds + 1 {
		few, err := s.relayDrain(ctx, "topics", slots[2*i], rows)
		if err != nil {
			return nil, err
		}
		many, err := s.drainMany(ctx, slots[2*i+1], rows, topics)
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first warms up
			res.Few.Relay, res.Many.Relay = append(res.Few.Relay, few), append(res.Many.Relay, many)
			ratios = append(ratios, many.Rate/few.Rate)
		}
	}
	res.Few.sum()
	res.Many.sum()
	res.Ratio = median(ratios)
	return res, dropSlots(ctx, conn, slots)
}

// makeMany creates the topics and returns their names.
func (s *stand) makeMany(ctx context.Context) ([]string, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Bootstrap()...))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var topics []string
	for i := range manyTopics {
		topics = append(topics, fmt.Sprintf("bench-many-%d", i))
	}
	made, err := kadm.NewClient(client).CreateTopics(ctx, manyPartitions, 1, nil, topics...)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		return nil, err
	}
	return topics, awaitLeaders(ctx, client, topics)
}

// awaitLeaders waits until every partition has a leader, which takes a little longer than the creation of the topics.
func awaitLeaders(ctx context.Context, client *kgo.Client, topics []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		_, err := records(ctx, client, topics)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pollInterval(len(topics))):
		case <-ctx.Done():
			return err
		}
	}
}

func fillMany(ctx context.Context, conn *pgx.Conn, rows, perTx int) error {
	for _, sql := range []string{"SET synchronous_commit = off", backlog(manyKind, orderKey, rows, perTx, manyPayload), "CHECKPOINT"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func (s *stand) drainMany(ctx context.Context, slot string, rows int, topics []string) (drained, error) {
	addr := s.listen()
	path, err := s.configure("topics", slot, fmt.Sprintf("%q", manyRoute), addr)
	if err != nil {
		return drained{}, err
	}
	return s.timeDrain(ctx, path, addr, slot, rows, topics)
}

func dropSlots(ctx context.Context, conn *pgx.Conn, slots []string) error {
	for _, slot := range slots {
		if _, err := conn.Exec(ctx, "SELECT pg_drop_replication_slot($1)", slot); err != nil {
			return err
		}
	}
	return nil
}
