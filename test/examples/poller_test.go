package examples

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The commands of docs/migrate-from-polling.md print what the page shows, beside a poller and an application that writes. Each event is
// published once: by the poller, which marks it, or by the relay.
func TestLeavingAPoller(t *testing.T) {
	const page = "migrate-from-polling.md"
	for _, program := range []string{"bash", "psql"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: install it: apt-get install bash postgresql-client", err)
		}
	}
	postgres := testenv.Postgres(t, testenv.PostgresOptions{})
	kafka := testenv.Kafka(t, testenv.KafkaOptions{})
	db := shopWith(t, postgres, blocksOf(t, page, "sql")[0])
	sh := startShell(t)
	bin := t.TempDir()
	binary, err := cdctest.Binary(t.Context(), t.TempDir())
	if err == nil {
		err = os.Symlink(binary, filepath.Join(bin, "cdc-relay"))
	}
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(filepath.Join(sh.dir, "cdc-relay.yaml"), []byte(blocksOf(t, page, "yaml")[0]+"\n"), 0o600))
	stop := inBackground(t, func(i int) error {
		return insert(t.Context(), db, fmt.Sprintf("a-%d", i), i)
	})
	stopPoller := inBackground(t, func(int) error { return poll(t.Context(), db) })
	sh.run(t, fmt.Sprintf("PATH=%s:$PATH; systemctl() { touch stopping; while [ ! -e stopped ]; do sleep 0.1; done; }", bin))
	go func() {
		for t.Context().Err() == nil {
			if _, err := os.Stat(filepath.Join(sh.dir, "stopping")); err == nil {
				stopPoller()
				_ = os.WriteFile(filepath.Join(sh.dir, "stopped"), nil, 0o600)
				return
			}
			<-time.After(50 * time.Millisecond)
		}
	}()
	here := strings.NewReplacer("localhost:5432", postgres.Addr(), "localhost:9092", kafka.Bootstrap()[0])
	steps := commandsOf(t, page)
	if len(steps) < 15 {
		t.Fatalf("only %d commands were found", len(steps))
	}
	for _, step := range steps {
		if sh.follow(t, here, step); t.Failed() {
			t.Fatal(sh.logs())
		}
	}
	stop()
	publishedOnce(t, db, kafka.Bootstrap())
}

// shopWith makes the database of the page, with the roles of the tutorial.
func shopWith(t *testing.T, server *testenv.PostgresServer, table string) *sql.DB {
	t.Helper()
	for _, statement := range []string{
		"CREATE ROLE app LOGIN PASSWORD 'app'", "CREATE ROLE cdc_relay LOGIN REPLICATION PASSWORD 'relay'", "CREATE DATABASE shop OWNER app",
	} {
		testenv.Must(t, server.Exec(t.Context(), "postgres", statement))
	}
	db, err := sql.Open("pgx", server.DSN("shop", "app"))
	testenv.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	return db
}

// inBackground calls fn again and again, until stop is called or the test ends. stop returns when fn has.
func inBackground(t *testing.T, fn func(i int) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			if err := fn(i); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// insert is the application, some of whose events the poller fails to publish.
func insert(ctx context.Context, db *sql.DB, id string, i int) error {
	_, err := db.ExecContext(ctx, `INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload) VALUES ($1, 'Order', $2, 'OrderPlaced', '{"total": 12}')`,
		id, fmt.Sprint(i%10))
	return err
}

// poll is the poller, which is slower than the application.
func poll(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, `UPDATE outbox_events SET status = CASE WHEN id LIKE '%7' THEN 'FAILED' ELSE 'PUBLISHED' END, published_at = now()
		WHERE id = (SELECT id FROM outbox_events WHERE status = 'CREATED' AND created_at < now() - interval '200 milliseconds' ORDER BY created_at LIMIT 1)`)
	return err
}

// publishedOnce compares the topic with what the poller has left.
func publishedOnce(t *testing.T, db *sql.DB, brokers []string) {
	t.Helper()
	want := map[string]int{}
	rows, err := db.QueryContext(t.Context(), "SELECT trim(id) FROM outbox_events WHERE status <> 'PUBLISHED'")
	testenv.Must(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		testenv.Must(t, rows.Scan(&id))
		want[id] = 1
	}
	if err := rows.Err(); err != nil || len(want) < 10 {
		t.Fatalf("%d events, %v", len(want), err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics("shop.Order"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	testenv.Must(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), cdctest.Patience(2*time.Minute))
	defer cancel()
	got := map[string]int{}
	for len(got) < len(want) && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			for _, h := range r.Headers {
				if h.Key == "ce_id" {
					got[strings.TrimSpace(string(h.Value))]++
				}
			}
		})
	}
	for id := range want {
		if got[id] != 1 {
			t.Errorf("event %s was published %d times", id, got[id])
		}
		delete(got, id)
	}
	for id := range got {
		t.Errorf("event %s was published by the poller, too", id)
	}
	t.Logf("%d events were published by the relay, each once", len(want))
}
