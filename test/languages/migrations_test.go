package languages

import (
	"cmp"
	"database/sql"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ariga.io/atlas/sql/migrate"
	atlasmysql "ariga.io/atlas/sql/mysql"
	atlaspostgres "ariga.io/atlas/sql/postgres"
	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Each format of schema print, applied by its tool, and the plain SQL as docs/other-languages.md has other tools take it, make the table
// that the plain SQL makes with psql or mysql, and the relay takes it.
func TestMigrations(t *testing.T) {
	tools := []string{"plain", "flyway", "liquibase", "alembic", "django", "atlas"}
	files := printed(t, []string{"plain", "flyway", "atlas"})
	java, python := []string{"-cp", compile(t, "testdata/Migrate.java"), "Migrate"}, []string{"testdata/migrate.py"}
	for _, e := range engines {
		for _, tool := range tools {
			database, file := "made_by_"+tool, cmp.Or(files[e.dialect+tool], files[e.dialect+"plain"])
			e.database(t, database)
			switch tool {
			case "plain":
				e.exec(t, database, text(t, file))
			case "flyway", "liquibase":
				java = append(java, tool, e.jdbc(database), file)
			case "alembic", "django":
				python = append(python, tool, e.sqlalchemy(database), file)
			case "atlas":
				e.atlas(t, database, filepath.Dir(file))
			}
		}
	}
	output(t, testenv.Interpreter(t, testenv.Java, java...))
	output(t, testenv.Interpreter(t, testenv.Python, python...))
	for _, e := range engines {
		want := e.shape(t, "made_by_plain")
		for _, tool := range tools {
			t.Run(e.dialect+"/"+tool, func(t *testing.T) {
				if got := e.shape(t, "made_by_"+tool); got != want {
					t.Fatalf("got\n%s\nwant\n%s", got, want)
				}
				relay, _ := e.relay(t, "made_by_"+tool)
				for _, command := range []string{"setup", "check"} {
					out, err := relay.Command(t.Context(), command)
					testenv.Must(t, err)
					if command == "setup" && !strings.Contains(out, "outbox: exists") {
						t.Errorf("setup did not find the table:\n%s", out)
					}
				}
			})
		}
	}
}

// printed writes the files of the formats, each into a directory of its own, and returns their paths. Their partitions
// begin with one day.
func printed(t *testing.T, formats []string) map[string]string {
	t.Helper()
	today := func() string { return time.Now().UTC().Format(time.DateOnly) }
	for {
		day, paths := today(), map[string]string{}
		for _, e := range engines {
			for _, format := range formats {
				out := output(t, exec.CommandContext(t.Context(), binary, "schema", "print", "--dialect", e.dialect, "--format", format, "--out", t.TempDir()))
				paths[e.dialect+format] = strings.TrimSpace(out)
			}
		}
		if today() == day {
			return paths
		}
	}
}

func (e *engine) sqlalchemy(database string) string {
	switch e.dialect {
	case "postgres":
		return "postgresql+psycopg://postgres@" + e.addr() + "/" + database
	case "mysql":
		return "mysql+pymysql://root@" + e.addr() + "/" + database
	default:
		return "mariadb+pymysql://root@" + e.addr() + "/" + database
	}
}

// atlas applies the directory with Atlas's library.
func (e *engine) atlas(t *testing.T, database, dir string) {
	t.Helper()
	var (
		db     *sql.DB
		driver migrate.Driver
		err    error
	)
	if e.pg != nil {
		db, err = sql.Open("pgx", e.pg.DSN(database, ""))
	} else {
		db, err = sql.Open("mysql", e.my.DSN(database, ""))
	}
	testenv.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1) // settings of the session hold for the next statement
	if e.pg != nil {
		driver, err = atlaspostgres.Open(db)
	} else {
		driver, err = atlasmysql.Open(db)
	}
	testenv.Must(t, err)
	files, err := migrate.NewLocalDir(dir)
	testenv.Must(t, err)
	sum, err := files.Checksum()
	testenv.Must(t, err)
	testenv.Must(t, migrate.WriteSumFile(files, sum))
	executor, err := migrate.NewExecutor(driver, files, migrate.NopRevisionReadWriter{})
	testenv.Must(t, err)
	testenv.Must(t, executor.ExecuteN(t.Context(), 0))
}

// shape describes the table with its partitions and the function that maintains them.
func (e *engine) shape(t *testing.T, database string) (shape string) {
	t.Helper()
	db, name := e.open(database), ""
	var err error
	if e.pg != nil {
		err = db.Query(t.Context(), []any{&shape}, `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
			SELECT concat_ws(' ', table_schema, table_name, ordinal_position, column_name, data_type, is_nullable, column_default) FROM information_schema.columns
				WHERE table_name LIKE '%outbox%'
			UNION ALL SELECT relname || ' ' || pg_get_expr(relpartbound, oid) FROM pg_class WHERE relispartition
			UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conname LIKE '%outbox%'
			UNION ALL SELECT pg_get_functiondef(oid) || coalesce(proacl::text, '') FROM pg_proc WHERE pronamespace = to_regnamespace('cdc_relay')) AS lines (line)`)
	} else {
		err = db.Query(t.Context(), []any{&name, &shape}, "SHOW CREATE TABLE outbox")
	}
	testenv.Must(t, err)
	return shape
}
