package outbox_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

var update = flag.Bool("update", false, "write the golden files")

func day() time.Time { return time.Date(2026, 1, 2, 23, 59, 0, 0, time.UTC) }

func TestScriptFiles(t *testing.T) {
	s := outbox.PostgresTable(outbox.TableOptions{Name: outbox.Name{Schema: "public", Table: "outbox"}, From: day(), Ahead: 14})
	for f, names := range map[outbox.Format]string{
		outbox.FormatPlain:         "create_outbox.sql",
		outbox.FormatGoose:         "20260102235900_create_outbox.sql",
		outbox.FormatGolangMigrate: "20260102235900_create_outbox.up.sql 20260102235900_create_outbox.down.sql",
		outbox.FormatFlyway:        "V20260102235900__create_outbox.sql",
		outbox.FormatAtlas:         "20260102235900_create_outbox.sql",
	} {
		files, err := s.Files(f, day())
		must(t, err)
		var got []string
		for _, file := range files {
			got = append(got, file.Name)
			if literal(f) { // the others are applied by test/languages
				golden(t, string(f)+"_"+strings.TrimPrefix(file.Name, "20260102235900_"), file.Text)
			}
		}
		if strings.Join(got, " ") != names {
			t.Errorf("%s: files %s", f, got)
		}
	}
}

// literal reports whether the format's tool takes SQL as it is.
func literal(f outbox.Format) bool {
	return f == outbox.FormatPlain || f == outbox.FormatGoose || f == outbox.FormatGolangMigrate
}

// Flyway would replace what looks like its placeholder.
func TestFlywayPlaceholderIsRefused(t *testing.T) {
	s := outbox.PostgresTable(outbox.TableOptions{Name: outbox.Name{Schema: "public", Table: "a${b}"}, Partition: outbox.PartitionNone})
	for _, f := range outbox.Formats() {
		if _, err := s.Files(f, day()); (err != nil) != (f == outbox.FormatFlyway) {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestStepsAsText(t *testing.T) {
	table := outbox.Name{Schema: "public", Table: "outbox"}
	steps := outbox.PostgresSetup(outbox.SetupOptions{
		Make: []outbox.TableOptions{{Name: table, Partition: outbox.PartitionNone}},
		Read: []outbox.Name{table, {Schema: "app", Table: "order"}}, Publication: "cdc_relay_shop", Slot: "cdc_relay_shop",
		Failover: true, Role: "relay",
	})
	golden(t, "setup.sql", steps.String())
	golden(t, "teardown.sql", outbox.PostgresTeardown("cdc_relay_shop", "cdc_relay_shop", []outbox.Name{table}).String())
}

func TestMySQLAsText(t *testing.T) {
	table := outbox.Name{Schema: "shop", Table: "outbox"}
	s := outbox.MySQLTable(outbox.TableOptions{Name: table, From: day(), Ahead: 2})
	for _, f := range []outbox.Format{outbox.FormatPlain, outbox.FormatGoose, outbox.FormatGolangMigrate} {
		files, err := s.Files(f, day())
		must(t, err)
		for _, file := range files {
			golden(t, "mysql_"+string(f)+"_"+strings.TrimPrefix(file.Name, "20260102235900_"), file.Text)
		}
	}
	for flavor, wrong := range map[cdc.Flavor][]mysql.Setting{
		cdc.MySQL:   {{Name: "gtid_mode", Has: "OFF", Want: "ON"}, {Name: "binlog_format", Want: "ROW"}, {Name: "sync_binlog", Want: "1"}},
		cdc.MariaDB: {{Name: "log_bin", Want: "binlog"}, {Name: "binlog_format", Want: "ROW"}, {Name: "binlog_row_metadata", Want: "FULL"}},
	} {
		settings := changing(flavor, wrong)
		steps := outbox.MySQLSetup(outbox.SetupOptions{
			Flavor: flavor, Make: []outbox.TableOptions{{Name: table, Partition: outbox.PartitionNone}},
			Read: []outbox.Name{table}, Maintain: []outbox.Name{table}, Role: "relay@10.0.%", Settings: settings,
		})
		golden(t, string(flavor)+"_setup.sql", steps.String())
	}
	golden(t, "mysql_teardown.sql", outbox.MySQLTeardown([]outbox.Name{table}, []outbox.Name{table}).String())
}

// changing returns the statements that change settings.
func changing(flavor cdc.Flavor, settings []mysql.Setting) (statements []outbox.Statement) {
	for _, s := range settings {
		for _, statement := range s.SQL(flavor) {
			statements = append(statements, outbox.Statement(statement))
		}
	}
	return statements
}

// golden compares text with a file in testdata, which -update writes.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if text != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s\n(go test -update writes it)", path, text, want)
	}
}

func TestPartitionNames(t *testing.T) {
	table := outbox.Name{Schema: "public", Table: "outbox"}
	if got := outbox.PostgresPartition(table, day()).String(); got != "cdc_relay.public_outbox_20260102" {
		t.Error(got)
	}
	if got := outbox.PostgresDefaultPartition(table).String(); got != "cdc_relay.public_outbox_default" {
		t.Error(got)
	}
	a := outbox.PostgresPartition(outbox.Name{Schema: "public", Table: strings.Repeat("ö", 30) + "a"}, day())
	b := outbox.PostgresPartition(outbox.Name{Schema: "public", Table: strings.Repeat("ö", 30) + "b"}, day())
	if len(a.Table) > 63 || a == b || !strings.HasSuffix(a.Table, "_20260102") {
		t.Errorf("long names: %s and %s", a, b)
	}
	seen := map[string]outbox.Name{}
	for _, n := range []outbox.Name{
		{Schema: "app_eu", Table: "outbox"},
		{Schema: "app", Table: "eu_outbox"},
		{Schema: "app", Table: "outbox"},
		{Schema: "app_outbox", Table: "maintain"},
		{Schema: strings.Repeat("a", 31) + "_b", Table: strings.Repeat("c", 30)},
		{Schema: strings.Repeat("a", 31), Table: "b_" + strings.Repeat("c", 30)},
		{Schema: strings.Repeat("a", 63), Table: "a"},
		{Schema: strings.Repeat("a", 63), Table: "b"},
		{Schema: strings.Repeat("a", 50), Table: "a"},
	} {
		for _, name := range []outbox.Name{outbox.PostgresPartition(n, day()), outbox.PostgresDefaultPartition(n), outbox.PostgresRoutine(n)} {
			if other, ok := seen[name.Table]; ok || len(name.Table) > 63 {
				t.Errorf("%s of %s, and of %s", name, n, other)
			}
			seen[name.Table] = n
		}
	}
}
