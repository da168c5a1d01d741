package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// plain returns a database whose table has no partitions, and whose rows count as 40 days old.
func plain(tb testing.TB, s source) cdctest.Database {
	tb.Helper()
	db := s.open(tb)
	o := outbox.TableOptions{Name: db.Table(), Partition: outbox.PartitionNone}
	statements, old := outbox.MySQLTable(o).Up, "(UTC_TIMESTAMP(6) - INTERVAL 40 DAY)"
	if _, ok := db.(*cdctest.Postgres); ok {
		statements, old = outbox.PostgresTable(o).Up, "now() - interval '40 days'"
		statements = append(statements, outbox.Statement{SQL: "ALTER PUBLICATION " + db.Name() + " ADD TABLE outbox"})
	}
	testenv.Must(tb, db.Exec(tb.Context(), "DROP TABLE outbox"))
	for _, st := range statements {
		testenv.Must(tb, db.Exec(tb.Context(), st.SQL))
	}
	testenv.Must(tb, db.Exec(tb.Context(), "ALTER TABLE outbox ALTER COLUMN created_at SET DEFAULT "+old))
	return db
}

func deleting(o *cdctest.RigOptions) {
	o.Settings = map[string]any{"retention": map[string]any{"keep": "30d", "partitions": false, "batch": 50, "every": "500ms"}}
}

// awaitCount waits until so many rows are left. No row comes back.
func awaitCount(r *cdctest.Rig, db cdctest.Database, want int) {
	r.Await(fmt.Sprintf("%d rows", want), func(ctx context.Context) (bool, error) {
		var n int
		err := db.Query(ctx, []any{&n}, "SELECT count(*) FROM outbox")
		if err == nil && n < want {
			r.Violation(cdctest.Unpublished, "%d rows are left, want %d", n, want)
			err = errors.New("rows were deleted")
		}
		return n == want, err
	})
}

// Old rows are kept while Kafka takes no events, also by a command, and the relay is killed then. They are deleted once the next
// one has saved their position. No record comes of that, and rows that are not old stay.
//
//covers:all 16 arrivals
func TestOldRowsAreDeletedOnceRelayed(t *testing.T) {
	onEach(t, func(t *testing.T, s source) {
		db := plain(t, s)
		kafka := testenv.Kafka(t, testenv.KafkaOptions{})
		r := newRig(t, db, cdctest.InFile, func(o *cdctest.RigOptions) {
			deleting(o)
			o.Kafka = kafka
		})
		r.Start()
		first := r.Append("k", 1)
		r.AwaitEvents(first)
		awaitCount(r, db, 0)
		r.Must(kafka.Brokers()[0].Pause())
		events := slices.Concat(first, r.Append("k", 20))
		if s.name == "postgres" { // the command waits for long
			out, err := r.Relay.Command(r.Within(time.Minute), "retention", "run")
			if err == nil || !strings.Contains(out+err.Error(), "position is not saved yet") || !strings.Contains(out, "make retention.keep longer") {
				t.Errorf("retention run: %s, %v", out, err)
			}
		} else {
			r.Hold(2 * time.Second) // the relay looks at the rows meanwhile
		}
		awaitCount(r, db, 20)
		had := r.Config["retention"]
		r.Reconfigure("retention", map[string]any{"keep": "60d", "partitions": false})
		_, err := r.Relay.Command(r.Within(time.Minute), "retention", "run")
		r.Must(err)
		awaitCount(r, db, 20)
		r.Reconfigure("retention", had)
		r.Kill()
		r.Must(kafka.Brokers()[0].Resume())
		r.Start()
		r.AwaitEvents(events)
		awaitCount(r, db, 0)
		r.Must(r.Reader.CatchUp(r.Within(time.Minute)))
		before, _ := r.Reader.Count()
		r.Await("the metric", func(ctx context.Context) (bool, error) {
			n, err := r.Relay.Metric(ctx, fmt.Sprintf("cdc_relay_rows_deleted_total{table=%q}", db.Table().String()))
			return n == 20, err
		})
		r.Must(db.Exec(t.Context(), "ALTER TABLE outbox ALTER COLUMN created_at SET DEFAULT "+map[bool]string{true: "now()", false: "(UTC_TIMESTAMP(6))"}[s.name == "postgres"]))
		young := r.Append("k", 5)
		r.AwaitEvents(young)
		out, err := r.Relay.Command(r.Within(time.Minute), "retention", "run")
		r.Must(err)
		awaitCount(r, db, len(young))
		r.Must(r.Reader.CatchUp(r.Within(time.Minute)))
		if after, n := r.Reader.Count(); n != len(events)+len(young) || after != before+len(young) {
			r.Violation(cdctest.Phantom, "%d records of %d events, %d before the last %d; %s", after, n, before, len(young), out)
		}
	})
}
