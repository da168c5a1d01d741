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
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

var update = flag.Bool("update", false, "write the golden files")

func day() time.Time { return time.Date(2026, 1, 2, 23, 59, 0, 0, time.UTC) }

func TestScriptFiles(t *testing.T) {
	name, mysqlName := outbox.Name{Schema: "public", Table: "outbox"}, outbox.Name{Schema: "shop", Table: "outbox"}
	for prefix, s := range map[string]outbox.Script{
		"":       outbox.PostgresTable(outbox.TableOptions{Name: name, From: day(), Ahead: 14}),
		"mysql_": outbox.MySQLTable(outbox.TableOptions{Name: mysqlName, From: day(), Ahead: 2}),
	} {
		for f, names := range map[outbox.Format]string{
			outbox.FormatPlain:         "create_outbox.sql",
			outbox.FormatGoose:         "20260102235900_create_outbox.sql",
			outbox.FormatGolangMigrate: "20260102235900_create_outbox.up.sql 20260102235900_create_outbox.down.sql",
			outbox.FormatFlyway:        "V20260102235900__create_outbox.sql",
			outbox.FormatAtlas:         "20260102235900_create_outbox.sql",
		} {
			files, err := s.Files(f, day())
			testenv.Must(t, err)
			var got []string
			for _, file := range files {
				got = append(got, file.Name)
				if literal(f) { // the others are applied by test/languages
					golden(t, prefix+string(f)+"_"+strings.TrimPrefix(file.Name, "20260102235900_"), file.Text)
				}
			}
			if strings.Join(got, " ") != names {
				t.Errorf("%s: files %s", f, got)
			}
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

// The steps that change settings, with what is to be done by hand. What setup and teardown print besides is in test/commands.
func TestSettingsAsText(t *testing.T) {
	table := outbox.Name{Schema: "shop", Table: "outbox"}
	for flavor, wrong := range map[cdc.Flavor][]mysql.Setting{
		cdc.MySQL:   {{Name: "gtid_mode", Has: "OFF", Want: "ON"}, {Name: "binlog_format", Want: "ROW"}, {Name: "sync_binlog", Want: "1"}},
		cdc.MariaDB: {{Name: "log_bin", Want: "binlog"}, {Name: "binlog_format", Want: "ROW"}, {Name: "binlog_row_metadata", Want: "FULL"}},
	} {
		steps := outbox.MySQLSetup(outbox.SetupOptions{
			Flavor: flavor, Make: []outbox.TableOptions{{Name: table, Partition: outbox.PartitionNone}},
			Read: []outbox.Name{table}, Maintain: []outbox.Name{table}, Role: "relay@10.0.%", Settings: changing(flavor, wrong),
		})
		golden(t, string(flavor)+"_setup.sql", steps.String())
	}
}

// changing returns the statements that change settings.
func changing(flavor cdc.Flavor, settings []mysql.Setting) (statements []outbox.Statement) {
	for _, s := range settings {
		statements = append(statements, s.SQL(flavor)...)
	}
	return statements
}

// golden compares text with a file in testdata, which -update writes.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		testenv.Must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	testenv.Must(t, err)
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
