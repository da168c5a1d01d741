package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/IBM/sarama"
)

// Metadata returns the cluster's brokers and the metadata of topics; without topics, of all of them.
func (c *Client) Metadata(ctx context.Context, topics []string) (*sarama.MetadataResponse, error) {
	var res *sarama.MetadataResponse
	err := c.request(ctx, func(b *sarama.Broker) error {
		req := sarama.NewMetadataRequest(sarama.MaxVersion, topics)
		req.AllowAutoTopicCreation = false
		req.IncludeTopicAuthorizedOperations = true
		r, err := b.GetMetadata(req)
		switch {
		case errors.Is(err, sarama.ErrUnsupportedVersion):
			err = errNotForClients(b.Addr(), err)
		case err == nil && len(r.Brokers) == 0:
			err = errStarting
		}
		res = r
		return err // request wraps it
	})
	if err != nil {
		return nil, err
	}
	c.known = c.known[:0]
	for _, b := range res.Brokers {
		c.known = append(c.known, b.Addr())
	}
	return res, nil
}

// Leaderless returns those of the topics to which nothing can be published now, with a partition that has no leader.
func (c *Client) Leaderless(ctx context.Context, topics []string) (map[string]int32, error) {
	md, err := c.Metadata(ctx, topics)
	if err != nil {
		return nil, err
	}
	leaderless := map[string]int32{}
	for _, tp := range md.Topics {
		for _, p := range tp.Partitions {
			if p.Leader < 0 {
				leaderless[tp.Name] = p.ID
			}
		}
	}
	return leaderless, nil
}

// errStarting: a broker that is starting announces no brokers (KAFKA-7924).
var errStarting = errors.New("the broker knows of no broker yet")

const (
	maxMessageBytes   = "max.message.bytes"
	minInsyncReplicas = "min.insync.replicas"
	cleanupPolicy     = "cleanup.policy"
)

// MaxMessageBytes returns max.message.bytes of topics; a topic that may not be described is left out. With an error others are too.
func (c *Client) MaxMessageBytes(ctx context.Context, topics []string) (map[string]int, error) {
	all, failed := c.describeConfigs(ctx, topics, maxMessageBytes)
	limits := make(map[string]int, len(all))
	for name, settings := range all {
		if n, err := strconv.Atoi(settings[maxMessageBytes]); err == nil {
			limits[name] = n
		}
	}
	return limits, failed
}

// describeConfigs returns settings of topics; a topic that may not be described is left out. With an error others are too.
func (c *Client) describeConfigs(ctx context.Context, topics []string, names ...string) (map[string]map[string]string, error) {
	req := &sarama.DescribeConfigsRequest{Version: 4}
	for _, name := range topics {
		req.Resources = append(req.Resources, &sarama.ConfigResource{Type: sarama.TopicResource, Name: name, ConfigNames: names})
	}
	var res *sarama.DescribeConfigsResponse
	err := c.request(ctx, func(b *sarama.Broker) (err error) {
		res, err = b.DescribeConfigs(req)
		return err // request wraps it
	})
	if err != nil {
		return nil, err
	}
	all := make(map[string]map[string]string, len(res.Resources))
	for _, r := range res.Resources {
		switch code := sarama.KError(r.ErrorCode); code {
		case sarama.ErrNoError:
			all[r.Name] = make(map[string]string, len(r.Configs))
			for _, entry := range r.Configs {
				all[r.Name][entry.Name] = entry.Value
			}
		case sarama.ErrTopicAuthorizationFailed, sarama.ErrClusterAuthorizationFailed, sarama.ErrUnknownTopicOrPartition: // which metadata tells
		default:
			err = fmt.Errorf("read the settings of topic %q: %w", r.Name, code)
		}
	}
	return all, err
}
