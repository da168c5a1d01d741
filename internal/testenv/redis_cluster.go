package testenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// hashSlots is the number of hash slots of a Redis cluster.
const hashSlots = 16384

// RedisCluster is three primaries that share the hash slots.
type RedisCluster struct {
	Nodes []*RedisServer
}

// startRedisCluster starts three nodes and waits until each reports cluster_state:ok.
func startRedisCluster(ctx context.Context, o RedisOptions) (*RedisCluster, error) {
	prog, err := getRedis(ctx)
	if err != nil {
		return nil, err
	}
	c := &RedisCluster{}
	if err := c.launch(ctx, prog, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *RedisCluster) launch(ctx context.Context, prog *program, o RedisOptions) error {
	const nodes = 3
	for n := range nodes {
		node, err := newClusterNode(ctx, prog, o)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, node)
		if err := node.Start(ctx); err != nil {
			return err
		}
		first, last := n*hashSlots/nodes, (n+1)*hashSlots/nodes-1
		if _, err := node.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", first, last); err != nil {
			return err
		}
		if _, err := node.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", n+1); err != nil {
			return err
		}
	}
	for _, node := range c.Nodes[1:] {
		if _, err := node.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].port.number, c.Nodes[0].bus); err != nil {
			return err
		}
	}
	return c.await(ctx)
}

// newClusterNode returns a node with a reserved bus port: the default, the port plus 10,000, may be taken.
func newClusterNode(ctx context.Context, prog *program, o RedisOptions) (*RedisServer, error) {
	node, err := newRedis(ctx, prog, o)
	if err != nil {
		return nil, err
	}
	bus, err := node.inst.reserve(ctx)
	if err != nil {
		return nil, errors.Join(err, node.Close())
	}
	node.bus = bus.number
	for key, value := range map[string]string{
		"cluster-enabled": "yes", "cluster-port": strconv.Itoa(bus.number), "cluster-node-timeout": "2000",
	} {
		node.options.Settings = withSetting(node.options.Settings, key, value)
	}
	if o.TLS {
		node.options.Settings = withSetting(node.options.Settings, "tls-cluster", "yes")
	}
	if err := node.configure(); err != nil {
		return nil, errors.Join(err, node.Close())
	}
	return node, nil
}

func (c *RedisCluster) await(ctx context.Context) error {
	for _, node := range c.Nodes {
		err := node.inst.awaitReady(ctx, func(ctx context.Context) error {
			info, err := node.Do(ctx, "CLUSTER", "INFO")
			if err != nil {
				return err
			}
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3") {
				return fmt.Errorf("the cluster is not ready: %s", info)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("start Redis cluster: %w", err)
		}
	}
	return nil
}

// Addrs returns the nodes' addresses.
func (c *RedisCluster) Addrs() []string {
	addrs := make([]string, 0, len(c.Nodes))
	for _, node := range c.Nodes {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

// LogTail returns the last lines of every node's log.
func (c *RedisCluster) LogTail(lines int) string { return redisLogs(c.Nodes, lines) }

// Close kills the nodes and removes their data.
func (c *RedisCluster) Close() error { return closeRedis(c.Nodes) }

func withSetting(settings map[string]string, key, value string) map[string]string {
	copied := maps.Clone(settings)
	if copied == nil {
		copied = map[string]string{}
	}
	copied[key] = value
	return copied
}
