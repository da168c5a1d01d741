package docs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// pageOfDatabase verifies that the statements on the page of MySQL and MariaDB run without errors, and that those for the user are what setup
// prints. A block that is for one of the two is marked `mysql mysql` or `mysql mariadb`, the others `mysql`.
func pageOfDatabase(t *testing.T, server *testenv.MySQLServer) {
	t.Helper()
	const page = "docs/mysql.md"
	found := statements(t, page, "mysql", "mysql "+server.Flavor)
	for _, printed := range printedBySetup(t, cdc.Flavor(server.Flavor)) {
		if !slices.Contains(found, printed) {
			t.Errorf("%s does not say %q, which setup prints", page, printed)
		}
	}
	if err := server.Exec(t.Context(), "", "CREATE DATABASE orders"); err != nil {
		t.Fatal(err)
	}
	found = slices.Concat(nativeTable(t), found, statements(t, "docs/consumer.md", "mysql"), statements(t, "docs/retention.md", "mysql"))
	for _, statement := range found {
		if err := server.Exec(t.Context(), "orders", strings.TrimSuffix(statement, ";")); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	isRight(t, server)
}

func nativeTable(t *testing.T) []string {
	t.Helper()
	script := outbox.MySQLTable(outbox.TableOptions{Name: ordersOutbox(), Partition: outbox.PartitionDaily, From: time.Now(), Ahead: 1})
	return []string{script.Up[0].SQL}
}

func ordersOutbox() outbox.Name { return outbox.Name{Schema: "orders", Table: "outbox"} }

// printedBySetup returns the statements for a server with default settings, without those for the table.
func printedBySetup(t *testing.T, flavor cdc.Flavor) []string {
	t.Helper()
	wrong := []mysql.Setting{{Name: "binlog_row_metadata", Want: "FULL"}}
	if flavor == cdc.MariaDB {
		wrong = append(wrong, mysql.Setting{Name: "binlog_format", Want: "ROW"}, mysql.Setting{Name: "sync_binlog", Want: "1"})
	}
	var settings []outbox.Statement
	for _, s := range wrong {
		settings = append(settings, s.SQL(flavor)[0])
	}
	steps := outbox.MySQLSetup(outbox.SetupOptions{
		Flavor: flavor, Role: "cdc_relay", Settings: settings, Read: []outbox.Name{ordersOutbox()},
	})
	var printed []string
	for _, step := range steps {
		for _, statement := range step.Statements {
			printed = append(printed, statement.SQL)
		}
	}
	return printed
}

// isRight checks the user that the page creates.
func isRight(t *testing.T, server *testenv.MySQLServer) {
	t.Helper()
	grants, err := server.Column(t.Context(), "SHOW GRANTS FOR cdc_relay", "Grants for cdc_relay@%")
	if err != nil || !strings.Contains(fmt.Sprint(grants), "REPLICATION SLAVE") {
		t.Errorf("the user has %q, %v", grants, err)
	}
}
