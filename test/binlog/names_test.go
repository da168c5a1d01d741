package binlog

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A server with lower_case_table_names = 1 logs table Outbox as outbox. The relay still finds its rows, and gives them the
// configured name. MySQL accepts the setting only when its data directory is initialised.
func TestLowerCaseTableNames(t *testing.T) {
	server := testenv.MySQL(t, testenv.MySQLOptions{Flavor: testenv.MariaDBFlavor, Settings: map[string]string{"lower_case_table_names": "1"}})
	d := &database{t: t, flavor: testenv.MariaDBFlavor, name: "Shop", dsn: server.DSN("", "")}
	d.db = d.open(d.dsn)
	defer d.db.Close()
	d.session("CREATE DATABASE Shop", "USE Shop", "CREATE TABLE Outbox (n INT NOT NULL, pad LONGBLOB)")
	var verified []string
	o := current()
	o.DSN = func(context.Context) (string, error) { return d.dsn, nil }
	o.Tables = []string{"Shop.Outbox"}
	o.Verify = func(table *cdc.Table) error {
		verified = append(verified, table.String())
		return nil
	}
	reg := prometheus.NewRegistry()
	r := start(t, binlog.New(o, slog.New(slog.DiscardHandler), reg), none)
	d.session("USE Shop", insert(1), insert(2))
	r.Expect(1, 2)
	r.MustStop()
	r.Source.Release(context.WithoutCancel(t.Context()))
	if got := strings.Join(slices.Compact(verified), " "); got != "Shop.Outbox" { // at the start, and before the first rows
		t.Errorf("verified %q", got)
	}
	if got := labels(t, reg, "cdc_relay_events_received_total"); got != "Shop.Outbox" {
		t.Errorf("rows of %q", got)
	}
	findings, tables := binlog.Check(t.Context(), o, none)
	if tables["Shop.Outbox"] == nil {
		t.Errorf("check finds %v: %v", tables, findings)
	}
}

// On other servers table names are case-sensitive.
func TestTableNames(t *testing.T) {
	onEach(t, func(d *database) {
		d.simple()
		d.exec("CREATE TABLE OUTBOX (n INT)")
		o := current()
		o.Tables = []string{d.name + ".Outbox"}
		stops(d.t, d.source(o), "table_missing", "Outbox", "tables[].name")
		verified := 0
		o.Tables = []string{d.name + ".outbox"}
		o.Verify = func(table *cdc.Table) error {
			verified += len(table.Columns)
			return nil
		}
		s := d.source(o)
		if _, _, err := s.Acquire(d.t.Context(), none); err != nil || verified != 2 {
			d.t.Errorf("%v, %d columns", err, verified)
		}
		s.Release(context.WithoutCancel(d.t.Context()))
	})
}

// labels returns the label values of a metric's series.
func labels(t *testing.T, reg *prometheus.Registry, name string) string {
	t.Helper()
	families, err := reg.Gather()
	testenv.Must(t, err)
	var values []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				values = append(values, m.GetLabel()[0].GetValue())
			}
		}
	}
	return strings.Join(values, " ")
}

// Where the server knows a table by its name of MySQL 5.0 too, rows that were written so are published.
func TestTableByItsOldName(t *testing.T) {
	onEach(t, func(d *database) {
		d.simple()
		r := start(d.t, d.source(current()), none)
		want := []int{2}
		if _, err := d.db.ExecContext(d.t.Context(), "INSERT INTO `#mysql50#outbox` (n) VALUES (1)"); err == nil {
			want = []int{1, 2}
		}
		d.session(insert(2))
		r.Expect(want...)
	})
}
