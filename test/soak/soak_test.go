// Package soak injects random faults under load into a leader and a standby for a given time, and then compares what was
// published with what was committed.
package soak

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const (
	// envTime is the duration for each database, such as "1h"; the default of a few seconds only tests the soak itself.
	envTime = "CDC_RELAY_SOAK"
	// envKills is a number of SIGKILLs, after which the run ends. Relays have no other faults then.
	envKills = "CDC_RELAY_KILLS"
	// envDatabases names the databases, "postgres,mysql,mariadb"; the default is all with envTime or envKills, else PostgreSQL.
	envDatabases = "CDC_RELAY_SOURCES"
	// envDelivery is the relay's mode.
	envDelivery = "CDC_RELAY_DELIVERY"
)

// longest is longer than any number of kills takes.
const longest = 24 * time.Hour

func TestSoak(t *testing.T) {
	lasts, databases := 20*time.Second, "postgres"
	if text := os.Getenv(envTime); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", envTime, err)
		}
		databases = "postgres,mysql,mariadb"
	}
	kills := 0
	if text := os.Getenv(envKills); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", envKills, err)
		}
		lasts, databases = longest, "postgres,mysql,mariadb"
	}
	if text := os.Getenv(envDatabases); text != "" {
		databases = text
	}
	for name := range strings.SplitSeq(databases, ",") {
		t.Run(name, func(t *testing.T) { soak(t, name, lasts, kills) })
	}
}

// soak ends after a time or, unless kills is 0, after that number of them.
func soak(t *testing.T, database string, lasts time.Duration, kills int) {
	t.Helper()
	p := newPair(t, database)
	what := fmt.Sprintf("soak SOAKTIME=%s", lasts)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	mean, faults := 4*time.Second, p.relayFaults()
	if kills > 0 {
		what = fmt.Sprintf("kills KILLS=%d", kills)
		mean, faults = 2*time.Second, []cdctest.Action{p.killLeader(kills, cancel)}
	}
	t.Logf("repeat with: make %s DB=%s DELIVERY=%s %s=%d", what, database, p.rig.Delivery, cdctest.EnvSeed, p.rig.Seed)
	relays := cdctest.NewNemesis(p.rig.Seed, faults...)
	servers := cdctest.NewNemesis(p.rig.Seed+1, p.serverFaults()...)
	defer func() {
		t.Log(summary(relays, servers, p.leads()))
		if t.Failed() {
			t.Logf("timeline:\n%s", timeline(relays.Steps(), servers.Steps(), p.events()))
		}
	}()
	p.start()
	p.rig.Load(cdctest.Workload{Writers: 3, Pause: 20 * time.Millisecond})
	var running sync.WaitGroup
	run := func(n *cdctest.Nemesis, mean time.Duration) {
		if err := n.Run(ctx, mean); err != nil {
			t.Error(err)
			cancel()
		}
	}
	running.Go(func() { run(relays, mean) })
	running.Go(func() { run(servers, 4*time.Second) })
	running.Wait()
	p.rig.Must(p.revive(t.Context()))
	p.rig.Verify()
}

// summary counts the faults by kind.
func summary(relays, servers *cdctest.Nemesis, leads int) string {
	count := map[string]int{}
	var names []string
	for _, s := range slices.Concat(relays.Steps(), servers.Steps()) {
		if count[s.Name]++; count[s.Name] == 1 {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	text := fmt.Sprintf("a relay took the lead %d times", leads)
	for _, name := range names {
		text += fmt.Sprintf("; %d × %s", count[name], name)
	}
	return text
}

// timeline lists what happened in order of time.
func timeline(all ...[]cdctest.Step) string {
	steps := slices.Concat(all...)
	slices.SortStableFunc(steps, func(a, b cdctest.Step) int { return a.At.Compare(b.At) })
	var text strings.Builder
	for _, s := range steps {
		fmt.Fprintln(&text, s)
	}
	return text.String()
}

func newRig(t *testing.T, database string, redis *failoverRedis) *cdctest.Rig {
	t.Helper()
	binary, err := cdctest.Binary(t.Context(), t.TempDir())
	testenv.Must(t, err)
	settings := map[string]any{"checkpoint.redis.addrs": []string{redis.address.Addr()}}
	return cdctest.NewRig(t, cdctest.RigOptions{
		Binary: binary, DB: newDatabase(t, database), Checkpoint: cdctest.InRedis, Redis: redis.nodes[0],
		Kafka:    testenv.Kafka(t, testenv.KafkaOptions{Brokers: 3}),
		Delivery: cdctest.Delivery(os.Getenv(envDelivery)), Settings: settings,
	})
}

func newDatabase(t *testing.T, name string) cdctest.Database {
	t.Helper()
	var db cdctest.Database
	var err error
	switch name {
	case "postgres":
		db, err = cdctest.NewPostgres(t.Context(), testenv.Postgres(t, testenv.PostgresOptions{}), "soak")
	case testenv.MySQLFlavor, testenv.MariaDBFlavor:
		db, err = cdctest.NewMySQL(t.Context(), testenv.MySQL(t, testenv.MySQLOptions{Flavor: name}), "soak")
	default:
		t.Fatalf("%s: there is no database %q: use postgres, mysql or mariadb", envDatabases, name)
	}
	testenv.Must(t, err)
	return db
}
