package docs

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The SQL on the pages runs on a real database, and the events that it inserts are published.
func TestSQL(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t, testenv.PostgresOptions{})
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "events", "orders", "orders-state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	binary := relay(t)
	for i, page := range []string{"docs/quickstart.md", "docs/other-languages.md", "docs/consumer.md", "docs/retention.md", "docs/postgresql.md"} {
		t.Run(page, func(t *testing.T) {
			if err := server.Exec(t.Context(), "postgres", "DROP ROLE IF EXISTS cdc_relay"); err != nil { // two pages create it
				t.Fatal(err)
			}
			db, err := cdctest.NewPostgres(t.Context(), server, fmt.Sprintf("page%d", i))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := cdctest.Append(t.Context(), db, "before", 2, nil); err != nil {
				t.Fatal(err)
			}
			found := statements(t, page, "sql")
			if len(found) == 0 {
				t.Fatal("there is no SQL")
			}
			for _, sql := range found {
				if err := db.Exec(t.Context(), sql); err != nil {
					t.Error(err)
				}
			}
			published(t, binary, db, nil, kafka.ListenAddrs())
		})
	}
}

// The same for MySQL and MariaDB, whose blocks are marked mysql. The last one runs twice, because the page says that it may
// be repeated.
func TestMySQLSQL(t *testing.T) {
	t.Parallel()
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "events", "orders", "orders-state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	binary := relay(t)
	for _, flavor := range []string{testenv.MySQLFlavor, testenv.MariaDBFlavor} {
		t.Run(flavor, func(t *testing.T) {
			db, err := cdctest.NewMySQL(t.Context(), testenv.MySQL(t, testenv.MySQLOptions{Flavor: flavor}), "page")
			if err != nil {
				t.Fatal(err)
			}
			found := statements(t, "docs/other-languages.md", "mysql")
			all := strings.Join(found, ";\n")
			if len(found) == 0 {
				t.Fatal("there is no SQL")
			}
			published(t, binary, db, func() error {
				if err := db.Server.Exec(t.Context(), db.Name(), all); err != nil {
					return err
				}
				return db.Server.Exec(t.Context(), db.Name(), found[len(found)-1])
			}, kafka.ListenAddrs())
			var repeated int
			if err := db.Query(t.Context(), []any{&repeated}, "SELECT count(*) FROM outbox WHERE created_at = '2025-11-21 13:35:26.588000'"); err != nil || repeated != 1 {
				t.Errorf("%d rows of the id that is inserted twice, %v", repeated, err)
			}
			// The routine makes a table of the day that it takes out of the partitioned one, where the empty partition stays.
			drop := statements(t, "docs/retention.md", "mysql detached")
			if err := db.Server.Exec(t.Context(), db.Name(), "CREATE TABLE outbox_20260102 (id int);\n"+strings.Join(drop, ";\n")); err != nil || len(drop) == 0 {
				t.Errorf("%q: %v", drop, err)
			}
			pageOfDatabase(t, db.Server)
		})
	}
}

// statements returns the statements of a page's blocks, without BEGIN and COMMIT, because each runs on its own connection.
// A partition of the past becomes yesterday's, which is empty.
func statements(t *testing.T, page string, languages ...string) []string {
	t.Helper()
	var found []string
	for _, block := range blocks(read(t, page), languages...) {
		block = regexp.MustCompile(` *--.*`).ReplaceAllString(block, "")
		block = regexp.MustCompile(`public_outbox_\d{8}`).ReplaceAllString(block, "public_outbox_"+time.Now().UTC().AddDate(0, 0, -1).Format("20060102"))
		for statement := range strings.SplitSeq(block, ";\n") {
			statement = strings.TrimSpace(statement)
			if statement != "" && statement != "BEGIN" && statement != "COMMIT" {
				found = append(found, statement)
			}
		}
	}
	return found
}

// database is a database for published.
type database interface {
	cdctest.Database
	Query(ctx context.Context, dest []any, query string, args ...any) error
}

// published runs a relay and verifies that it publishes the rows of the table. insert, if not nil, inserts them after setup
// has stored the first position.
func published(t *testing.T, binary string, db database, insert func() error, brokers []string) {
	t.Helper()
	dir := t.TempDir()
	config := cdctest.Config{
		"source": db.Config(), "kafka": map[string]any{"brokers": brokers}, "routes": []any{map[string]any{"topic": "events"}},
		"log": map[string]any{"format": "text"},
	}
	if insert != nil {
		config["checkpoint"] = map[string]any{"file": filepath.Join(dir, "position")}
	}
	r, err := cdctest.NewRelay(binary, dir, config)
	if err != nil {
		t.Fatal(err)
	}
	if insert != nil {
		if out, err := r.Command(t.Context(), "setup"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := insert(); err != nil {
			t.Fatal(err)
		}
	}
	var rows int
	if err := db.Query(t.Context(), []any{&rows}, "SELECT count(*) FROM outbox"); err != nil || rows == 0 {
		t.Fatalf("%d events in the table, %v", rows, err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Kill)
	err = cdctest.Await(t.Context(), fmt.Sprintf("%d events to be published", rows), func(ctx context.Context) (bool, error) {
		if !r.Running() {
			return false, fmt.Errorf("the relay ended: %s", r.LogTail(3))
		}
		n, err := r.Metric(ctx, "cdc_relay_events_published_total")
		return err == nil && int(n) == rows, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
