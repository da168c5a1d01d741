package binlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// A statement writes to several outbox tables, for example because a trigger on one copies rows into another. Its table maps
// precede all of its rows in the binlog. Columns b and y are decoded by go-mysql.
func TestStatementOnSeveralTables(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		d.exec("CREATE TABLE second (n INT NOT NULL, b BIT(7), y YEAR)")
		d.exec("CREATE TRIGGER copied AFTER INSERT ON outbox FOR EACH ROW INSERT INTO second VALUES (NEW.n + 100, 1, 2000)")
		o := current()
		o.Tables = []string{d.name + ".outbox", d.name + ".second"}
		r := start(t, d.source(o), none)
		d.session(insert(1), "BEGIN", insert(2, 3), "INSERT INTO second VALUES (4, 1, 2000)", insert(5), "COMMIT")
		r.Await(9)
		got := r.Numbers()
		slices.Sort(got) // the order between tables is the server's
		conformance.Same(t, got, []int{1, 2, 3, 4, 5, 101, 102, 103, 105})
	})
}

// Rows of a transaction lack a column, and the database cannot be asked whether its table has it now: the next attempt continues behind the
// rows that were handed on.
//
//covers:binlogs 15 rows both
func TestCatalogAwayWithinTransaction(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		d.exec("CREATE TABLE second (n INT NOT NULL, x INT)")
		var away atomic.Bool
		o := current()
		o.Tables = []string{d.name + ".outbox", d.name + ".second"}
		o.Verify = func(t *cdc.Table) error {
			if t.Name == "second" && t.Index("x") < 0 {
				return cdc.ConfigError(cdc.MissingColumn, "add it", "column x is missing")
			}
			return nil
		}
		o = d.options(o)
		dsn := o.DSN
		o.DSN = func(ctx context.Context) (string, error) {
			if away.Load() {
				return "", errors.New("away")
			}
			return dsn(ctx)
		}
		r := start(t, newSource(o), none)
		d.exec("ALTER TABLE second DROP COLUMN x")
		away.Store(true)
		var many []int
		for n := range 300 {
			many = append(many, n)
		}
		d.session("BEGIN", insert(many...), "INSERT INTO second VALUES (300)", insert(301), "COMMIT")
		err := r.Ended()
		if _, final := errors.AsType[*cdc.StopError](err); err == nil || final {
			t.Fatalf("ended with %v", err)
		}
		away.Store(false)
		now := ""
		r.Each = func(b *cdc.Batch) {
			if b.Table != nil && b.Table.Now != nil {
				now = fmt.Sprint(b.Table.Now.Columns[1:])
			}
		}
		d.exec("ALTER TABLE second ADD COLUMN x INT")
		again := r.Again(none)
		again.ExpectUpTo(0, 301)
		again.MustStop()
		if want := fmt.Sprint([]cdc.Column{{Name: "x", Type: cdc.TypeInteger}}); now != want {
			t.Errorf("the table has %s now, want %s", now, want)
		}
	})
}
