package testenv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// client is a short-lived client of one listener.
func client(addrs ...string) (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.RequestRetries(0), kgo.DialTimeout(2*time.Second))
}

// metadata asks this broker alone.
func (b *Broker) metadata(ctx context.Context, request *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
	cl, err := client(b.Addr(ListenerPlain))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	return request.RequestWith(ctx, cl)
}

// ping succeeds once the broker answers and its metadata lists it.
func (b *Broker) ping(ctx context.Context) error {
	response, err := b.metadata(ctx, kmsg.NewPtrMetadataRequest())
	if err != nil {
		return err
	}
	for _, broker := range response.Brokers {
		if broker.NodeID == int32(b.ID) {
			return nil
		}
	}
	return errors.New("the broker is not registered yet")
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
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = nil // all
	response, err := b.metadata(ctx, request)
	if err != nil {
		return err
	}
	if len(response.Brokers) != brokers {
		return fmt.Errorf("sees %d of %d brokers", len(response.Brokers), brokers)
	}
	for _, topic := range response.Topics {
		for _, p := range topic.Partitions {
			if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
				return fmt.Errorf("partition %d of topic %s: leader %d, %d of %d replicas in sync",
					p.Partition, *topic.Topic, p.Leader, len(p.ISR), len(p.Replicas))
			}
		}
	}
	return nil
}

// CreateTopic creates a topic, replicated to at most three brokers, and waits until each partition has a leader.
// settings are topic configurations such as cleanup.policy.
func (k *KafkaCluster) CreateTopic(ctx context.Context, name string, partitions int, settings map[string]string) error {
	cl, err := client(k.Bootstrap()...)
	if err != nil {
		return err
	}
	defer cl.Close()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(partitions), -1
	for key, value := range settings {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = key, &value
		topic.Configs = append(topic.Configs, config)
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 30000
	request.Topics = append(request.Topics, topic)
	for {
		response, err := request.RequestWith(ctx, cl)
		if err == nil {
			err = kerr.ErrorForCode(response.Topics[0].ErrorCode)
		}
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
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &name
	request.Topics = append(request.Topics, topic)
	response, err := b.metadata(ctx, request)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(response.Topics[0].ErrorCode); err != nil {
		return err
	}
	for _, p := range response.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}
