package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/backfill"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/provision"
)

func newSetupCommand(a *cli) *cobra.Command {
	var (
		owner   ownerFlag
		sql     bool
		flags   tableFlags
		options = provision.SetupOptions{Table: flags.table, Printf: a.printf}
	)
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Create what the relay needs: table, publication and slot or first position, topics",
		Long: `Create what is missing: the outbox table with its partitions, on PostgreSQL publication and replication slot, on MySQL and MariaDB
the first position, and with topics.create the topics that routes name. It may be run again.

PostgreSQL keeps WAL from the moment the slot exists: start the relay soon, or remove the slot with cdc-relay teardown. Server settings are
never changed; missing ones, and grants that the owner may not give, are printed for an administrator.

Where a table has rows and neither slot nor position exists, say what becomes of these rows: --backfill publishes them, --skip-existing does
not. If a relay has published from this database before, run cdc-relay repair.

With --backfill it publishes every row, as cdc-relay backfill does; until it has ended no relay starts. With --backfill --where it publishes
the rows that meet a condition in the database's SQL, such as those that another publisher, which must have stopped, has left, and begins at
that moment: nothing is published twice. On MySQL and MariaDB it locks the tables for that moment (LOCK TABLES). Interrupted, run the same
command again: with exactly-once delivery nothing is repeated, unless publishing takes longer than 40 seconds.

` + ownerHelp + `
With --print the SQL is printed, grouped by the role that must run it, and nothing is changed.`,
		Example: `  cdc-relay setup
  CDC_RELAY_OWNER_DSN="$(cat owner-dsn)" cdc-relay setup
  cdc-relay setup --backfill --where "status IN ('CREATED', 'FAILED')"
  cdc-relay setup --print`,
		Args: noArgs,
	}
	cmd.RunE = a.withDatabase(func(ctx context.Context, c *config.Config, db app.Database, _ []string) error {
		if err := backfillFlags(&options, sql, cmd.Flags().Changed("where")); err != nil {
			return err
		}
		if sql {
			return provision.NewSetup(c, db, options).Print(ctx)
		}
		return a.setup(ctx, c, db, options, owner)
	})
	flags.add(cmd)
	owner.add(cmd)
	cmd.Flags().BoolVar(&sql, "print", false, "print the SQL instead of running it")
	cmd.Flags().BoolVar(&options.Backfill, "backfill", false, "then publish every row of the tables, also those from before the slot or the first position")
	cmd.Flags().BoolVar(&options.SkipExisting, "skip-existing", false, "leave the rows that are there unpublished, and begin with what is committed from now on")
	cmd.Flags().StringVar(&options.Where, "where", "", "publish only the rows that meet this `condition`, and take the slot or position at that moment")
	return cmd
}

func backfillFlags(o *provision.SetupOptions, sql, where bool) error {
	switch {
	case sql && o.Backfill:
		return cdc.Usage("leave one of them out", "--print and --backfill cannot be combined")
	case o.SkipExisting && o.Backfill:
		return cdc.Usage("leave one of them out", "--skip-existing and --backfill cannot be combined")
	case where && !o.Backfill:
		return cdc.Usage("add --backfill, or leave it out", "--where says which rows --backfill publishes")
	case where && strings.TrimSpace(o.Where) == "":
		return cdc.Usage("give a condition such as \"status IN ('CREATED', 'FAILED')\", or leave it out", "--where is empty")
	}
	return nil
}

func (a *cli) setup(ctx context.Context, c *config.Config, db app.Database, o provision.SetupOptions, owner ownerFlag) error {
	dsn, err := owner.dsn(ctx, a, c)
	if err != nil {
		return err
	}
	if o.Where != "" {
		if err := provision.CountPending(ctx, db, dsn, o.Where, a.printf); err != nil {
			return err
		}
	}
	if err := provision.NewSetup(c, db, o).Run(ctx, dsn); err != nil || !o.Backfill {
		return err
	}
	ran, err := a.repair(ctx, backfill.Options{All: o.Where == "", Where: o.Where}, owner)
	if err != nil {
		return err
	}
	published := "" // an earlier backfill has not published what meets the condition only now
	if ran {
		published = cmp.Or(o.Where, "TRUE")
	}
	return provision.Settle(ctx, c, db, published, a.printf)
}
