package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

func newSchemaCommand(a *app) *cobra.Command {
	return group("schema", "Print or make the outbox table", newSchemaPrintCommand(a), newSchemaApplyCommand(a))
}

// defaultAhead is how many days of partitions are made in advance.
const defaultAhead = 14

// tableFlags are the flags that shape a table.
type tableFlags struct {
	options outbox.TableOptions
	dialect string
}

func (f *tableFlags) add(cmd *cobra.Command) {
	addChoice(cmd, &f.dialect, "dialect", "the database", "postgres")
	addChoice(cmd, &f.options.Payload, "payload", "type of the payload column", outbox.PayloadBytea, outbox.PayloadText, outbox.PayloadJSONB)
	addChoice(cmd, &f.options.Partition, "partition", "how the table is divided; none makes event_id alone the key", outbox.PartitionDaily, outbox.PartitionNone)
	cmd.Flags().IntVar(&f.options.Ahead, "ahead", defaultAhead, "`days` to make partitions for in advance")
}

// table returns the options for one table, with partitions from today on.
func (f *tableFlags) table(name outbox.Name) outbox.TableOptions {
	o := f.options
	o.Name, o.From = name, time.Now()
	return o
}

func newSchemaPrintCommand(a *app) *cobra.Command {
	var (
		flags     tableFlags
		format    outbox.Format
		name, dir string
	)
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the SQL that makes the outbox table",
		Long: `Print the SQL that makes the outbox table with its partitions, as it is or as a migration. It needs neither
a configuration nor a database, and the SQL is safe to run again: it makes what is missing.`,
		Example: `  cdc-relay schema print | psql "$DATABASE_URL"
  cdc-relay schema print --payload jsonb --partition none
  cdc-relay schema print --format goose --dir migrations`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			table, err := outbox.ParseName(name)
			if err != nil {
				return usage("--table: %w", err)
			}
			script, err := outbox.PostgresTable(flags.table(table))
			if err != nil {
				return &usageError{err}
			}
			files, err := script.Files(format, time.Now())
			if err != nil {
				return &usageError{err}
			}
			return a.writeFiles(files, dir)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&name, "table", "public.outbox", "the table's `name`")
	addChoice(cmd, &format, "format", "what reads it", outbox.FormatPlain, outbox.FormatGoose, outbox.FormatGolangMigrate)
	cmd.Flags().StringVar(&dir, "dir", "", "write files into this `directory` instead of printing")
	return cmd
}

// writeFiles prints the files, or writes them into dir without replacing any.
func (a *app) writeFiles(files []outbox.File, dir string) error {
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
			return fmt.Errorf("write migration: %w", err)
		}
		a.printf("%s\n", path)
	}
	return nil
}

func writeNew(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a migration is for everybody to read
	if err != nil {
		return err //nolint:wrapcheck // the caller says what for
	}
	if _, err := file.WriteString(text); err != nil {
		_ = file.Close()
		return err //nolint:wrapcheck // as above
	}
	return file.Close() //nolint:wrapcheck // as above
}

func newSchemaApplyCommand(a *app) *cobra.Command {
	var (
		flags tableFlags
		owner ownerFlag
	)
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Make the outbox table, or the partitions that it lacks",
		Long: `Make the configured outbox tables with their partitions, and on tables that exist the daily partitions that
they lack. Tables with a columns mapping belong to other software and are left alone. cdc-relay setup does
this and makes publication, slot and topics too.

` + ownerHelp,
		Example: "  cdc-relay schema apply\n  cdc-relay schema apply --ahead 60 --owner-dsn \"$OWNER_DATABASE_URL\"",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			return a.applySchema(cmd.Context(), c, &flags, &owner)
		},
	}
	flags.add(cmd)
	owner.add(cmd)
	return cmd
}

func (a *app) applySchema(ctx context.Context, c *config.Config, flags *tableFlags, owner *ownerFlag) error {
	tables, err := outboxTables(c)
	if err != nil {
		return err
	}
	db, err := wal.OpenDatabase(ctx, owner.dsn(a, c))
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	for _, t := range tables {
		if t.foreign {
			a.printf("table %s: left alone, it has a columns mapping\n", t.name)
			continue
		}
		if err := a.applyTable(ctx, db, flags.table(t.name)); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) applyTable(ctx context.Context, db *wal.Database, o outbox.TableOptions) error {
	script, err := outbox.PostgresTable(o)
	if err != nil {
		return &usageError{err}
	}
	before, err := db.Survey(ctx, wal.Options{Tables: []string{o.Name.String()}})
	if err != nil {
		return err
	}
	if err := db.Exec(ctx, "create table "+o.Name.String(), texts(script.Up)...); err != nil {
		return err
	}
	said := "created"
	if before.Tables[o.Name.String()] != nil {
		said = "exists"
	}
	a.printf("table %s: %s%s\n", o.Name, said, partitionsUntil(&o))
	return nil
}

// partitionsUntil says how far the partitions reach.
func partitionsUntil(o *outbox.TableOptions) string {
	if o.Partition == outbox.PartitionNone {
		return ""
	}
	return ", with daily partitions until " + o.From.UTC().AddDate(0, 0, o.Ahead).Format(time.DateOnly)
}

func texts(statements []outbox.Statement) []string {
	list := make([]string, len(statements))
	for i, s := range statements {
		list[i] = s.SQL
	}
	return list
}
