package cdctest_test

import (
	"context"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The ledger and the table agree across a crash and a shutdown.
func TestMySQLWorkload(t *testing.T) {
	t.Parallel()
	for _, flavor := range []string{testenv.MySQLFlavor, testenv.MariaDBFlavor} {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			server := testenv.MySQL(t, testenv.MySQLOptions{Flavor: flavor})
			db, err := cdctest.NewMySQL(ctx, server, "shop")
			must(t, err)
			load := cdctest.Workload{DB: db, Writers: 6, Keys: 8, Pause: time.Millisecond, Seed: cdctest.Seed(t)}.Start(ctx)
			for _, how := range []cdctest.Stop{cdctest.Crash, cdctest.Shutdown} {
				awaitTransactions(t, load, 150)
				must(t, db.Stop(ctx, how))
				must(t, db.Start(ctx))
			}
			awaitTransactions(t, load, 150)
			must(t, load.Stop())

			truth := cdctest.NewTruth("shop", db.RecordSource())
			must(t, db.Committed(ctx, truth.Add))
			must(t, load.Ledger.Check(truth))
			if truth.Len() < load.Ledger.Committed() || load.Ledger.RolledBack() == 0 {
				t.Errorf("the table has %d events: %s", truth.Len(), load.Ledger)
			}
			must(t, truth.Ranked())

			must(t, db.InsertMany(ctx, "many", 2500, 10))
			before := truth.Len()
			truth = cdctest.NewTruth("shop", db.RecordSource())
			must(t, db.Committed(ctx, truth.Add))
			must(t, truth.Ranked())
			if truth.Len() != before+2500 {
				t.Errorf("%d events, want %d", truth.Len(), before+2500)
			}
		})
	}
}

func awaitTransactions(t *testing.T, load *cdctest.Load, n int) {
	t.Helper()
	from := load.Ledger.Transactions()
	deadline, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, cdctest.Await(deadline, "transactions", func(context.Context) (bool, error) {
		return load.Ledger.Transactions() >= from+n, nil
	}))
}

// Binlogs are purged although a replica was reading them.
func TestMySQLLosesItsBinlogs(t *testing.T) {
	t.Parallel()
	for _, flavor := range []string{testenv.MySQLFlavor, testenv.MariaDBFlavor} {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			server := testenv.MySQL(t, testenv.MySQLOptions{Flavor: flavor})
			testenv.MySQLReplica(t, server, testenv.MySQLOptions{})
			db, err := cdctest.NewMySQL(ctx, server, "shop")
			must(t, err)
			_, err = cdctest.Append(ctx, db, "k", 10, nil)
			must(t, err)
			must(t, db.LoseLog(ctx))
			logs, err := server.Column(ctx, "SHOW BINARY LOGS", "Log_name")
			must(t, err)
			if len(logs) != 1 {
				t.Errorf("binlogs %v are left, want one", logs)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
