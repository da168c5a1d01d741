package checkpoint

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Check verifies that the key can be read and written, without changing it, and that the server's settings cannot lose
// a checkpoint.
func (r *Redis) Check(ctx context.Context) []cdc.Finding {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	c, found, err := r.Load(ctx)
	if err != nil {
		return []cdc.Finding{failed(err)}
	}
	if err := r.probe.Run(ctx, r.client, []string{r.options.Key}).Err(); err != nil {
		return append([]cdc.Finding{failed(r.explain("write checkpoint", err))}, r.inspect(ctx)...)
	}
	return append([]cdc.Finding{r.holds(c, found)}, r.inspect(ctx)...)
}

func (r *Redis) holds(c cdc.Checkpoint, found bool) cdc.Finding {
	f := cdc.Finding{Severity: cdc.SeverityOK, Subject: subject, Text: fmt.Sprintf("%s answers and key %s can be read and written", r.server, r.options.Key)}
	if found {
		f.Text += fmt.Sprintf(" (it holds a checkpoint of %s)", describe(c.Source))
	}
	return f
}

// inspect reads the server's settings from INFO, because managed services deny CONFIG.
func (r *Redis) inspect(ctx context.Context) []cdc.Finding {
	var report cdc.Report
	node, err := r.node(ctx)
	if err != nil {
		return []cdc.Finding{failed(r.explain("look up the key's node", err))}
	}
	text, err := node.Info(ctx).Result()
	if err != nil {
		report.Info(subject, "grant +info to have eviction, persistence and role checked",
			"%s does not tell its settings (%v): whether it can lose a checkpoint is not known", r.server, err)
		return report.Findings
	}
	info := parseInfo(text)
	if info["redis_mode"] == "cluster" && r.options.Mode != Cluster {
		report.Fail(subject, cdc.Fixable("set checkpoint.redis.mode to cluster",
			"%s is a node of a cluster and checkpoint.redis.mode is %s: the key may move to another node", r.server, r.options.Mode))
	}
	if info["role"] == "slave" {
		report.Fail(subject, cdc.Fixable("give the master's address in checkpoint.redis.addrs, or set checkpoint.redis.mode to sentinel",
			"%s is a replica of %s:%s and keeps no writes", r.server, info["master_host"], info["master_port"]))
	}
	// The policies for all keys can drop the checkpoint. Those for volatile keys cannot, because the checkpoint does not
	// expire. Without a memory limit nothing is evicted.
	if policy := info["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys-") {
		say := report.Warn
		if info["maxmemory"] == "0" {
			say = report.Info
		}
		say(subject, "set maxmemory-policy to noeviction or one of volatile-*",
			"%s has maxmemory-policy %s, which may drop the checkpoint when memory is short: the next start then trusts the slot alone on PostgreSQL, and is refused on MySQL and MariaDB", r.server, policy)
	}
	if info["aof_enabled"] == "0" {
		report.Warn(subject, "set appendonly to yes",
			"%s has appendonly off: after its restart it may hold an older checkpoint, with which a start stops and asks on PostgreSQL, and repeats events on MySQL and MariaDB", r.server)
	}
	return report.Findings
}

// node is the server that holds the key.
func (r *Redis) node(ctx context.Context) (redis.Cmdable, error) {
	if cluster, ok := r.client.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, r.options.Key)
	}
	return r.client, nil
}

// parseInfo reads the "name:value" lines of INFO.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[k] = v
		}
	}
	return info
}
