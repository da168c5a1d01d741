package testenv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// SentinelMaster is the sentinels' name of the primary.
const SentinelMaster = "relay"

// RedisSentinel is a primary, a replica and a sentinel that promotes the replica after the primary was down for a second.
type RedisSentinel struct {
	Nodes    []*RedisServer // The first starts as the primary.
	Sentinel *RedisServer
}

// startRedisSentinel starts the three and waits until the replica is in sync and the sentinel sees both. TLS is not
// supported.
func startRedisSentinel(ctx context.Context, o RedisOptions) (*RedisSentinel, error) {
	prog, err := getRedis(ctx)
	if err != nil {
		return nil, err
	}
	s := &RedisSentinel{}
	if err := s.launch(ctx, prog, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *RedisSentinel) launch(ctx context.Context, prog *program, o RedisOptions) error {
	primary, err := newRedis(ctx, prog, o)
	if err != nil {
		return err
	}
	s.Nodes = append(s.Nodes, primary)
	o.Settings = withSetting(o.Settings, "replicaof", fmt.Sprintf("127.0.0.1 %d", primary.port.number))
	replica, err := newRedis(ctx, prog, o)
	if err != nil {
		return err
	}
	s.Nodes = append(s.Nodes, replica)
	if s.Sentinel, err = newSentinel(ctx, prog, primary); err != nil {
		return err
	}
	for _, server := range []*RedisServer{primary, replica, s.Sentinel} {
		if err := server.Start(ctx); err != nil {
			return err
		}
	}
	return s.Sentinel.inst.awaitReady(ctx, s.settled)
}

// newSentinel returns a sentinel: the same binary in another mode, which rewrites its configuration file.
func newSentinel(ctx context.Context, prog *program, primary *RedisServer) (*RedisServer, error) {
	s, err := newRedis(ctx, prog, RedisOptions{})
	if err != nil {
		return nil, err
	}
	s.mode = []string{"--sentinel"}
	lines := []string{
		"bind 127.0.0.1",
		fmt.Sprintf("port %d", s.port.number),
		"dir " + s.inst.dir,
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1", SentinelMaster, primary.port.number),
		"sentinel down-after-milliseconds " + SentinelMaster + " 1000",
		"sentinel failover-timeout " + SentinelMaster + " 5000",
	}
	if primary.options.Password != "" {
		lines = append(lines, "sentinel auth-pass "+SentinelMaster+" "+primary.options.Password)
	}
	if _, err := s.inst.write("redis.conf", strings.Join(lines, "\n")+"\n"); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *RedisSentinel) settled(ctx context.Context) error {
	info, err := s.Nodes[1].Do(ctx, "INFO", "replication")
	if err != nil {
		return err
	}
	if !strings.Contains(info, "master_link_status:up") {
		return errors.New("the replica is not in sync")
	}
	seen, err := s.Sentinel.Do(ctx, "INFO", "sentinel")
	if err != nil {
		return err
	}
	if !strings.Contains(seen, "status=ok") || !strings.Contains(seen, "slaves=1") {
		return errors.New("the sentinel does not see primary and replica")
	}
	return nil
}

// LogTail returns the last lines of every server's log.
func (s *RedisSentinel) LogTail(lines int) string { return redisLogs(s.servers(), lines) }

// Close kills all three and removes their data.
func (s *RedisSentinel) Close() error { return closeRedis(s.servers()) }

func (s *RedisSentinel) servers() []*RedisServer {
	servers := slices.Clone(s.Nodes)
	if s.Sentinel != nil {
		servers = append(servers, s.Sentinel)
	}
	return servers
}

func redisLogs(servers []*RedisServer, lines int) string {
	var text strings.Builder
	for _, server := range servers {
		text.WriteString(server.Addr() + ":\n" + server.LogTail(lines) + "\n")
	}
	return text.String()
}

func closeRedis(servers []*RedisServer) error {
	var errs []error
	for _, server := range servers {
		errs = append(errs, server.Close())
	}
	return errors.Join(errs...)
}
