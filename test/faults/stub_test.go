package faults

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// An event that is too large for the topic of dead letters has its payload in the table only. Its row is neither dropped nor deleted
// before it is published again, from the row, and in the order of its key.
//
//covers:all 34 arrivals both
func TestDeadLetterWithoutItsPayload(t *testing.T) {
	t.Parallel()
	past := time.Now().AddDate(0, 0, -3)
	for name, kept := range map[string]struct {
		open    func(testing.TB, source) cdctest.Database
		keeping func(*cdctest.RigOptions)
		kept    func(*cdctest.Rig)
		gone    func(*cdctest.Rig)
	}{
		"partitions": {
			func(tb testing.TB, s source) cdctest.Database { tb.Helper(); return maintained(tb, s) }, maintaining, awaitKept,
			func(r *cdctest.Rig) { awaitRows(r, maintainedBy(r), past, -1) },
		},
		"rows": {
			func(tb testing.TB, s source) cdctest.Database { tb.Helper(); return plain(tb, s) }, deleting,
			func(r *cdctest.Rig) {
				r.Must(r.Relay.AwaitLog(r.Within(time.Minute), "the payload of 4 dead letters of relay"))
			},
			awaitNoRows,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBothModes(t, func(t *testing.T, s source, delivery func(*cdctest.RigOptions)) {
				t.Helper()
				of := s
				s.open = func(tb testing.TB) cdctest.Database { tb.Helper(); return kept.open(tb, of) }
				r := letterRigWith(t, s, func(o *cdctest.RigOptions) { kept.keeping(o); delivery(o) }, map[string]string{"max.message.bytes": "5000"})
				_, err := r.Relay.Command(r.Within(time.Minute), "setup") // records in the database that the relay has letters
				r.Must(err)
				if name == "partitions" {
					createdAgo(r, maintainedBy(r), 3)
				}
				r.Start()
				bad := r.AppendAs("k", 1, func(e *cdctest.Event) { stray(e); large(e) })[0]
				r.Append("k", 3)
				held := r.AppendAs("k", 3, large)
				awaitCounts(r, "map[held:6 unroutable:1]")
				kept.kept(r)
				routeStrays(r)
				r.Kill()
				r.Start()
				_, err = r.Relay.Command(r.Within(time.Minute), "dlq", "retry", bad.ID.String())
				if err != nil && strings.Contains(r.Relay.Log(), "which has 0 rows with this event ID") {
					r.Violation(cdctest.Unpublished, "the row of a dead letter is gone")
				}
				r.Must(err)
				r.AwaitEvents(held)
				awaitCounts(r, "map[]")
				kept.gone(r)
				r.AwaitCount(7)
			})
		})
	}
}

func large(e *cdctest.Event) { e.Payload = cdctest.Payload(e.Key, e.Seq, 20_000) }

func awaitNoRows(r *cdctest.Rig) {
	db, _ := r.DB.(queried)
	r.Await("no row to be left", func(ctx context.Context) (bool, error) {
		n := -1
		err := db.Query(ctx, []any{&n}, "SELECT COUNT(*) FROM outbox")
		return n == 0, err
	})
}
