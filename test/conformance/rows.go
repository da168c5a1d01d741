package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Month is the age from which rows are deleted.
const Month = 30 * 24 * time.Hour

// OldRowsAreDeletedByTheirKey deletes rows by keys of every kind, to the last digit, and no others. A row of a transaction that commits
// after the rows were read stays, however old it is. kinds are five literals by the type of the key.
func OldRowsAreDeletedByTheirKey(t *testing.T, d Outbox, kinds map[string][5]string) {
	t.Helper()
	for kind, ids := range kinds {
		d.Exec("DROP TABLE IF EXISTS events", "CREATE TABLE events (id "+kind+" NOT NULL, at "+d.TimeType()+", UNIQUE (id))")
		for i, id := range ids[:4] {
			d.Exec("INSERT INTO events VALUES (" + id + ", " + d.Ago([]int{40, 20, 40, 20}[i]) + ")")
		}
		end := d.Hold("INSERT INTO events VALUES (" + ids[4] + ", " + d.Ago(50) + ")")
		r, err := d.Rows("")
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		keys, behind, err := r.Due(t.Context(), 10)
		if err != nil || len(keys) != 2 {
			t.Fatalf("%s: %v, %v", kind, keys, err)
		}
		end(true)
		if passed, err := r.Passed(t.Context(), behind); err != nil {
			t.Errorf("%s: %v", kind, err)
		} else if passed {
			cdctest.Violation(t, cdctest.Unpublished, "%s: rows count as relayed before the position has passed them", kind)
		}
		d.Relayed()
		if passed, err := r.Passed(t.Context(), behind); !passed || err != nil {
			t.Errorf("%s: not relayed: %v", kind, err)
		}
		n, err := r.Act(t.Context(), keys, false)
		left, young := d.Text("SELECT COUNT(*) FROM events"), d.Text(fmt.Sprintf("SELECT COUNT(*) FROM events WHERE id IN (%s, %s, %s)", ids[1], ids[3], ids[4]))
		if err != nil || n != 2 || left != "3" || young != "3" {
			t.Errorf("%s: %d deleted, %s left, of which %s should be: %v", kind, n, left, young, err)
		}
	}
}

// Refused is table events, made by SQL, whose old rows Role cannot delete. Want is a part of the fix; "": it can.
type Refused struct{ SQL, Role, Want string }

// OldRowsThatCannotBeDeleted verifies that what cannot be deleted safely, or not by this role, is refused with the fix.
func OldRowsThatCannotBeDeleted(t *testing.T, d Database, cases []Refused) {
	t.Helper()
	for _, tt := range cases {
		d.Exec("DROP TABLE IF EXISTS heir, events, others", tt.SQL)
		_, err := d.Rows(tt.Role)
		if (err == nil) != (tt.Want == "") || err != nil && !strings.Contains(cdc.Explain(err), tt.Want) {
			t.Errorf("%s: %v; want %q", tt.SQL, err, tt.Want)
		}
	}
}

// Kept is why the database keeps Left of 300 rows of table events: SQL, or a transaction that holds a lock. Want is what the error says.
type Kept struct {
	SQL, Hold []string
	Left      int
	Want      []string
}

// relayedRows are rows whose position is saved.
type relayedRows struct{ cleanup.Rows }

func (relayedRows) Passed(context.Context, cdc.Position) (bool, error) { return true, nil }

// OldRowsThatTheDatabaseKeeps verifies that these stay, with the reason, and that all others are deleted in the same pass.
func OldRowsThatTheDatabaseKeeps(t *testing.T, d Database, cases map[string]Kept) {
	t.Helper()
	for _, title := range slices.Sorted(maps.Keys(cases)) {
		tt := cases[title]
		d.Exec("DROP TABLE IF EXISTS note, events", "CREATE TABLE events (id INT UNIQUE, at "+d.TimeType()+")",
			"INSERT INTO events WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT i, "+d.Ago(40)+" FROM n")
		d.Exec(tt.SQL...)
		end := d.Hold(tt.Hold...)
		r, err := d.Rows("")
		if err != nil {
			t.Fatalf("%s: %v", title, err)
		}
		open := func(context.Context, cdc.Loader) ([]cleanup.Rows, func(), error) {
			return []cleanup.Rows{relayedRows{r}}, func() {}, nil
		}
		reg := prometheus.NewRegistry()
		err = cleanup.NewDeletes(cleanup.DeleteOptions{Batch: 5}, open, slog.New(slog.DiscardHandler), reg).Once(t.Context())
		end(false)
		said := "nothing"
		if err != nil {
			said = cdc.Explain(err)
		}
		for _, want := range tt.Want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: it says %s\nwant %q", title, said, want)
			}
		}
		if left := d.Text("SELECT COUNT(*) FROM events"); left != strconv.Itoa(tt.Left) || deleted(t, reg) != 300-tt.Left {
			t.Errorf("%s: %s rows are left, %d are counted as deleted; want %d left", title, left, deleted(t, reg), tt.Left)
		}
	}
}

// deleted is what the metric of deleted rows counts.
func deleted(t *testing.T, reg *prometheus.Registry) (n int) {
	t.Helper()
	families, err := reg.Gather()
	testenv.Must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "cdc_relay_rows_deleted_total" {
				n += int(m.GetCounter().GetValue())
			}
		}
	}
	return n
}
