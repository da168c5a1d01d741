package testenv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// admin is a short-lived client of one listener.
func admin(addrs ...string) (*kadm.Client, error) {
	return kadm.NewOptClient(kgo.SeedBrokers(addrs...), kgo.RequestRetries(0), kgo.DialTimeout(2*time.Second))
}

// metadata asks this broker alone, by a new client, which has nothing cached.
func (b *Broker) metadata(ctx context.Context, topics ...string) (kadm.Metadata, error) {
	cl, err := admin(b.Addr(ListenerPlain))
	if err != nil {
		return kadm.Metadata{}, err
	}
	defer cl.Close()
	return cl.Metadata(ctx, topics...)
}

// ping succeeds once the broker answers and its metadata lists it.
func (b *Broker) ping(ctx context.Context) error {
	known, err := b.metadata(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(known.Brokers.NodeIDs(), int32(b.ID)) {
		return errors.New("the broker is not registered yet")
	}
	return nil
}

// AwaitHealthy waits until every broker is up and every replica of every partition is in sync.
func (k *KafkaCluster) AwaitHealthy(ctx context.Context) error {
	for _, b := range k.brokers {
		if err := b.await(ctx); err != nil {
			return err
		}
	}
	for {
		err := k.healthy(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("Kafka did not become healthy: %w", errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// healthy asks each broker, because metadata reaches them at different times.
func (k *KafkaCluster) healthy(ctx context.Context) error {
	for _, b := range k.brokers {
		if err := b.healthy(ctx, len(k.brokers)); err != nil {
			return fmt.Errorf("broker %d: %w", b.ID, err)
		}
	}
	return nil
}

func (b *Broker) healthy(ctx context.Context, brokers int) error {
	known, err := b.metadata(ctx)
	if err != nil {
		return err
	}
	if len(known.Brokers) != brokers {
		return fmt.Errorf("sees %d of %d brokers", len(known.Brokers), brokers)
	}
	known.Topics.EachPartition(func(p kadm.PartitionDetail) {
		if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
			err = fmt.Errorf("partition %d of topic %s: leader %d, %d of %d replicas in sync",
				p.Partition, p.Topic, p.Leader, len(p.ISR), len(p.Replicas))
		}
	})
	return err
}

// CreateTopic creates a topic, replicated to at most three brokers, and waits until each partition has a leader.
// settings are topic configurations such as cleanup.policy.
func (k *KafkaCluster) CreateTopic(ctx context.Context, name string, partitions int, settings map[string]string) error {
	cl, err := admin(k.Bootstrap()...)
	if err != nil {
		return err
	}
	defer cl.Close()
	cl.SetTimeoutMillis(30_000)
	configs := map[string]*string{}
	for key, value := range settings {
		configs[key] = &value
	}
	for {
		_, err := cl.CreateTopic(ctx, int32(partitions), -1, configs, name)
		if err == nil {
			return k.awaitTopic(ctx, name)
		}
		// On a busy machine a broker's heartbeats come late, and the controller does without that broker for a moment.
		if !errors.Is(err, kerr.InvalidReplicationFactor) {
			return fmt.Errorf("create topic %s: %w", name, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("create topic %s: %w", name, errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// awaitTopic waits until every broker that is up knows the topic and all its leaders.
func (k *KafkaCluster) awaitTopic(ctx context.Context, name string) error {
	for _, b := range k.brokers {
		if b.PID() == 0 {
			continue
		}
		err := b.inst.awaitReady(ctx, func(ctx context.Context) error { return b.knows(ctx, name) })
		if err != nil {
			return fmt.Errorf("create topic %s: %w", name, err)
		}
	}
	return nil
}

func (b *Broker) knows(ctx context.Context, name string) error {
	known, err := b.metadata(ctx, name)
	if err == nil {
		err = known.Topics.Error()
	}
	if err != nil {
		return err
	}
	known.Topics.EachPartition(func(p kadm.PartitionDetail) { err = errors.Join(err, p.Err) })
	return err
}
