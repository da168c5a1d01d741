package checkpoint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// check reports each setting that can lose a checkpoint, with its severity and fix.
func TestCheck(t *testing.T) {
	t.Parallel()
	good := testenv.Redis(t, testenv.RedisOptions{AppendOnly: true})
	replica := testenv.Redis(t, testenv.RedisOptions{AppendOnly: true, Settings: map[string]string{"replicaof": "127.0.0.1 1"}})
	careless := testenv.Redis(t, testenv.RedisOptions{Settings: map[string]string{"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}})
	strict := testenv.Redis(t, testenv.RedisOptions{Password: "root", Users: []string{
		"relay on >secret resetchannels ~cdc-relay:* -@all +get +set +eval +evalsha",
		"reader on >secret resetchannels ~cdc-relay:* -@all +get +eval +evalsha +info",
	}})
	cluster := testenv.Cluster(t, testenv.RedisOptions{AppendOnly: true})

	for _, c := range []struct {
		name string
		o    checkpoint.RedisOptions
		want []string // severities
		says []string
	}{
		{"good", standalone(good), []string{"ok"}, []string{"can be read and written"}},
		{
			"careless", standalone(careless),
			[]string{"ok", "warn", "warn"},
			[]string{"allkeys-lru", "set maxmemory-policy to noeviction", "set appendonly to yes"},
		},
		{"replica", standalone(replica), []string{"fail", "fail"}, []string{"read-only replica", "give the master's address"}},
		{"node of a cluster", standalone(owner(t, cluster)), []string{"ok", "fail"}, []string{"set checkpoint.redis.mode to cluster"}},
		{"cluster", checkpoint.RedisOptions{Mode: checkpoint.Cluster, Addrs: cluster.Addrs(), Key: key}, []string{"ok"}, nil},
		{"no INFO", withUser(standalone(strict)), []string{"ok", "info"}, []string{"grant +info"}},
		{"no SET", as(withUser(standalone(strict)), "reader"), []string{"fail", "warn"}, []string{"+set"}},
		{"no password", standalone(strict), []string{"fail"}, []string{"set checkpoint.redis.password"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			findings := opened(t, c.o).Check(t.Context())
			var got []string
			var text strings.Builder
			for _, f := range findings {
				got = append(got, string(f.Severity))
				text.WriteString(f.Text + ": " + f.Fix + "; ")
				if f.Severity != cdc.SeverityOK && f.Fix == "" {
					t.Errorf("%q has no fix", f.Text)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			wantText(t, text.String(), c.says)
			t.Log(text.String())
		})
	}
	if do(t, []*testenv.RedisServer{good}, "EXISTS", key) != "0" {
		t.Error("the check left a key behind")
	}
}

// check does not change a stored checkpoint or its expiry.
func TestCheckChangesNothing(t *testing.T) {
	server := testenv.Redis(t, testenv.RedisOptions{AppendOnly: true})
	nodes := []*testenv.RedisServer{server}
	s := opened(t, standalone(server))
	save(t, s, at(1, 1))
	before := do(t, nodes, "GET", key)
	do(t, nodes, "EXPIRE", key, 1000)
	findings := s.Check(t.Context())
	if len(findings) != 1 || !strings.Contains(findings[0].Text, `database "orders"`) {
		t.Errorf("got %+v", findings)
	}
	if after := do(t, nodes, "GET", key); after != before {
		t.Errorf("was %q, is %q", before, after)
	}
	if ttl := do(t, nodes, "TTL", key); ttl == "-1" {
		t.Error("the check removed the expiry")
	}
}

func as(o checkpoint.RedisOptions, user string) checkpoint.RedisOptions {
	o.Username = user
	return o
}
