package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

func newSchemaCommand(a *cli) *cobra.Command {
	return group("schema", "Print the SQL of the outbox table", newSchemaPrintCommand(a))
}

// defaultAhead is how many days of partitions are created in advance, and maxAhead how many can be: planning is slow with thousands of them.
const defaultAhead, maxAhead = 14, 366

// tableFlags are the flags that shape a table.
type tableFlags struct {
	options outbox.TableOptions
}

func (f *tableFlags) add(cmd *cobra.Command) {
	addChoice(cmd, &f.options.Payload, "payload", "type of the payload column (MySQL: LONGBLOB, LONGTEXT, JSON)", outbox.PayloadBytea, outbox.PayloadText, outbox.PayloadJSONB)
	addChoice(cmd, &f.options.Partition, "partition", "partitions of the table; with none, event_id alone is the key", outbox.PartitionDaily, outbox.PartitionNone)
	cmd.Flags().IntVar(&f.options.Ahead, "ahead", defaultAhead, "create partitions for this many `days` in advance")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if ahead := f.options.Ahead; ahead < 0 || ahead > maxAhead {
			return cdc.Usage(fmt.Sprintf("use 0 to %d", maxAhead), "partitions: %d days ahead is out of range", ahead)
		}
		return nil
	}
}

// table returns the options for one table, with partitions from today.
func (f *tableFlags) table(name outbox.Name) outbox.TableOptions {
	o := f.options
	o.Name, o.From = name, time.Now()
	return o
}

// The dialects of schema print.
const (
	dialectPostgres = "postgres"
	dialectMySQL    = "mysql"
	dialectMariaDB  = "mariadb"
)

// script returns the script that creates a table; name "" is the dialect's default.
func (f *tableFlags) script(dialect, name string) (outbox.Script, error) {
	parse, create, usual := outbox.ParseName, outbox.PostgresTable, "public.outbox"
	if dialect != dialectPostgres {
		parse = func(name string) (outbox.Name, error) { return outbox.ParseMySQLName(name, "") } // of the current database
		create, usual = outbox.MySQLTable, "outbox"
	}
	table, err := parse(cmp.Or(name, usual))
	if err != nil {
		return outbox.Script{}, fmt.Errorf("--table: %w", err)
	}
	return create(f.table(table)), nil
}

func newSchemaPrintCommand(a *cli) *cobra.Command {
	var (
		flags     tableFlags
		dialect   string
		format    outbox.Format
		name, dir string

		inbox, idempotency bool
	)
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the SQL that creates the outbox table, or a consumer's tables",
		Long: `Print the SQL that creates the outbox table with its partitions, as plain SQL or as a migration. No configuration and
no database are needed. The SQL may be run again: it creates what is missing, but on MySQL and MariaDB no days of a table that exists,
which cdc-relay retention run --ahead makes.

With --inbox print the tables of package inbox, with --idempotency that of package idempotency: they belong to the
consumer's database, which may be another one.`,
		Example: `  cdc-relay schema print | psql "$DATABASE_URL"
  cdc-relay schema print --dialect mysql | mysql orders
  cdc-relay schema print --format flyway --out src/main/resources/db/migration
  cdc-relay schema print --inbox | psql "$DATABASE_URL"`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			var script outbox.Script
			var err error
			switch {
			case inbox:
				script = outbox.InboxTables(dialect != dialectPostgres)
			case idempotency:
				script = outbox.IdempotencyTable(dialect != dialectPostgres)
			default:
				script, err = flags.script(dialect, name)
			}
			if err != nil {
				return cdc.Usage("", "%w", err)
			}
			files, err := script.Files(format, time.Now())
			if err != nil {
				return cdc.Usage("", "%w", err)
			}
			return a.writeFiles(files, dir)
		},
	}
	flags.add(cmd)
	addChoice(cmd, &dialect, "dialect", "SQL dialect", dialectPostgres, dialectMySQL, dialectMariaDB)
	cmd.Flags().StringVar(&name, "table", "", "the table's `name` (default public.outbox, on MySQL and MariaDB outbox)")
	addChoice(cmd, &format, "format", "format of the output", outbox.Formats()...)
	cmd.Flags().StringVar(&dir, "out", "", "write files into this `directory` instead of printing")
	renamed(cmd, "dir", "out")
	cmd.Flags().BoolVar(&inbox, "inbox", false, "print the tables in which a consumer records handled and parked messages")
	cmd.Flags().BoolVar(&idempotency, "idempotency", false, "print the table of idempotency keys and responses")
	cmd.MarkFlagsMutuallyExclusive("inbox", "idempotency")
	for _, flag := range []string{"table", "payload", "partition", "ahead"} {
		cmd.MarkFlagsMutuallyExclusive("inbox", flag)
		cmd.MarkFlagsMutuallyExclusive("idempotency", flag)
	}
	return cmd
}

// writeFiles prints the files, or writes them into dir without replacing any.
func (a *cli) writeFiles(files []outbox.File, dir string) error {
	for i, f := range files {
		if dir == "" {
			if len(files) > 1 {
				a.printf("%s-- %s\n\n", [2]string{"", "\n"}[min(i, 1)], f.Name)
			}
			a.printf("%s", f.Text)
			continue
		}
		path := filepath.Join(dir, f.Name)
		if err := writeNew(path, f.Text); err != nil {
			return cdc.Usage("name a directory that exists and has no such file", "write migration: %w", err)
		}
		a.printf("%s\n", path)
	}
	return nil
}

func writeNew(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a migration is world-readable
	if err != nil {
		return err // the caller adds the context
	}
	if _, err := file.WriteString(text); err != nil {
		_ = file.Close()
		return err // as above
	}
	return file.Close() // as above
}
