package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alicebob/miniredis/v2"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// servers are a real database that the demo has started, and Kafka and Redis, in process unless addresses were given.
type servers struct {
	backend backend // nil until it runs
	fakes   struct {
		kafka *kfake.Cluster
		redis *miniredis.Miniredis
	}
	brokers, redis []string
}

// startServers starts the servers that are not given. Call close even after an error.
func startServers(ctx context.Context, o options, progress io.Writer) (*servers, error) {
	s := &servers{brokers: o.kafka, redis: o.redis}
	if _, err := testenv.Fetch(ctx, o.kind, progress); err != nil {
		return s, err
	}
	var err error
	if s.backend, err = startBackend(ctx, o.kind); err != nil {
		return s, err
	}
	if len(s.brokers) == 0 {
		if s.fakes.kafka, err = kfake.NewCluster(kfake.NumBrokers(1)); err != nil {
			return s, fmt.Errorf("start Kafka in process: %w", err)
		}
		s.brokers = s.fakes.kafka.ListenAddrs()
	}
	if len(s.redis) == 0 {
		if s.fakes.redis, err = miniredis.Run(); err != nil {
			return s, fmt.Errorf("start Redis in process: %w", err)
		}
		s.redis = []string{s.fakes.redis.Addr()}
	}
	return s, nil
}

// close stops the servers that were started. The database's log is kept.
func (s *servers) close(logPath string) error {
	if s.fakes.kafka != nil {
		s.fakes.kafka.Close()
	}
	if s.fakes.redis != nil {
		s.fakes.redis.Close()
	}
	if s.backend == nil {
		return nil
	}
	log, err := os.ReadFile(s.backend.LogPath())
	if err == nil {
		err = os.WriteFile(logPath, log, 0o600)
	}
	return errors.Join(err, s.backend.Close())
}

// lent reports whether the demo uses servers that it did not start, where it must leave nothing behind.
func (s *servers) lent() bool { return s.fakes.kafka == nil || s.fakes.redis == nil }

// deleteTopics deletes the demo's topics, and the groups of the shop's consumer, from a real Kafka.
func (s *servers) deleteTopics(ctx context.Context, topics ...string) error {
	if s.fakes.kafka != nil {
		return nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	var errs []error
	for _, topic := range topics {
		if _, err := admin.DeleteTopic(ctx, topic); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			errs = append(errs, fmt.Errorf("delete topic %s: %w", topic, err))
		}
		// Its member was killed, and would leave only later. An error is one of DeleteGroup, too.
		_, _ = admin.LeaveGroup(ctx, kadm.LeaveGroup("stock."+topic).InstanceIDs("stock-1"))
		if _, err := admin.DeleteGroup(ctx, "stock."+topic); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			errs = append(errs, fmt.Errorf("delete group stock.%s: %w", topic, err))
		}
	}
	return errors.Join(errs...)
}
