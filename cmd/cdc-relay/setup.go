package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

func newSetupCommand(a *app) *cobra.Command {
	var (
		flags  tableFlags
		owner  ownerFlag
		sql    bool
		action setup
	)
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Make what the relay needs: table, publication, slot, topics",
		Long: `Make what the relay needs and does not find: the outbox table with its partitions, the publication, then the
replication slot, which must see the publication, and, where topics.create is set, the topics that routes
name. It is safe to run again.

From the moment the slot exists PostgreSQL keeps WAL until the relay has read it: start the relay soon, or
take the slot away with cdc-relay teardown.

` + ownerHelp + `
With --print nothing is run: the SQL is printed, grouped by the role that must run it.`,
		Example: `  cdc-relay setup
  cdc-relay setup --owner-dsn "$OWNER_DATABASE_URL"
  cdc-relay setup --print`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			if err := action.prepare(a, c, &flags); err != nil {
				return err
			}
			if sql {
				return action.print(cmd.Context())
			}
			return action.run(cmd.Context(), owner.dsn(a, c))
		},
	}
	flags.add(cmd)
	owner.add(cmd)
	cmd.Flags().BoolVar(&sql, "print", false, "print the SQL instead of running it")
	return cmd
}

// setup is one run of the command.
type setup struct {
	app    *app
	config *config.Config
	flags  *tableFlags
	wal    wal.Options
	tables []outboxTable
}

func (s *setup) prepare(a *app, c *config.Config, flags *tableFlags) (err error) {
	s.app, s.config, s.flags = a, c, flags
	if s.wal, err = walOptions(c); err != nil {
		return err
	}
	s.tables, err = outboxTables(c)
	return err
}

// steps returns the SQL, with grants for role unless it is empty.
func (s *setup) steps(version int, role string, missing func(outboxTable) bool) (outbox.Steps, error) {
	o := outbox.SetupOptions{Publication: s.wal.Publication, Slot: s.wal.Slot, Role: role, Failover: s.failover(version)}
	for _, t := range s.tables {
		o.Publish = append(o.Publish, t.name)
		if !t.foreign && missing(t) {
			o.Make = append(o.Make, s.flags.table(t.name))
		}
	}
	steps, err := outbox.PostgresSetup(o)
	if err != nil {
		return nil, &usageError{err}
	}
	return steps, nil
}

// failoverVersion is the first PostgreSQL that keeps slots on standbys.
const failoverVersion = 170000

func (s *setup) failover(version int) bool {
	switch s.config.Source.Postgres.Failover {
	case config.FailoverOn:
		return true
	case config.FailoverOff:
		return false
	default:
		return version >= failoverVersion
	}
}

// surveyTimeout bounds the look at the server's version that --print takes.
const surveyTimeout = 5 * time.Second

func (s *setup) print(ctx context.Context) error {
	version := 0
	asking, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	if db, err := wal.OpenDatabase(asking, s.wal.DSN); err == nil {
		version = db.Server.Version
		db.Close(ctx)
	}
	role, err := roleName(s.config)
	if err != nil {
		return err
	}
	steps, err := s.steps(version, role, func(outboxTable) bool { return true })
	if err != nil {
		return err
	}
	if version == 0 && s.config.Source.Postgres.Failover == config.FailoverAuto {
		s.app.printf("-- The database did not answer, so its version is not known. On PostgreSQL 17 and newer add\n" +
			"-- failover => true to pg_create_logical_replication_slot: the slot then survives a standby's promotion.\n\n")
	}
	s.app.printf("%s", steps)
	return nil
}

// run makes what is missing, in the order in which one thing needs the other.
func (s *setup) run(ctx context.Context, ownerDSN func() (string, error)) error {
	db, err := wal.OpenDatabase(ctx, s.wal.DSN)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	if err := db.Server.Problem(); err != nil {
		return err
	}
	before, err := db.Survey(ctx, s.wal)
	if err != nil {
		return err
	}
	if err := s.makeObjects(ctx, db, ownerDSN, before); err != nil {
		return err
	}
	if err := s.makeSlot(ctx, db, before.Slot); err != nil {
		return err
	}
	if err := s.makeTopics(ctx); err != nil {
		return err
	}
	s.app.printf("done: prove it with `cdc-relay check`, then start `cdc-relay run`\n")
	return nil
}
