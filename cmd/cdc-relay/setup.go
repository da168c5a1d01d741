package main

import (
	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/provision"
	"github.com/cdc-relay/cdc-relay/internal/repair"
)

func newSetupCommand(a *app) *cobra.Command {
	var (
		owner   ownerFlag
		sql     bool
		flags   tableFlags
		options = provision.SetupOptions{Table: flags.table, Printf: a.printf}
	)
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Create what the relay needs: table, publication and slot or first position, topics",
		Long: `Create what the relay needs and does not find: the outbox table with its partitions and, if topics.create is
set, the topics that routes name. It may be run again.

On PostgreSQL it also creates the publication, and then the replication slot, which must be newer than the
publication. As soon as the slot exists, PostgreSQL keeps WAL until the relay has read it: start the relay soon,
or remove the slot with cdc-relay teardown.

On MySQL and MariaDB it stores the server's current GTID position in the checkpoint, unless one is stored:
events committed from then on are published. Server settings and grants are not changed: missing settings and
grants are printed for an administrator.

With --backfill it then publishes every row of the tables, also those that were there before, as cdc-relay repair --all does.
Interrupted, it can be run again.

` + ownerHelp + `
With --print the SQL is printed, grouped by the role that must run it, and nothing is changed.`,
		Example: `  cdc-relay setup
  CDC_RELAY_OWNER_DSN="$(cat owner-dsn)" cdc-relay setup
  cdc-relay setup --print`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, err := a.database()
			if err != nil {
				return err
			}
			if sql && options.Backfill {
				return cdc.Usage("leave one of them out", "--print and --backfill cannot be combined")
			}
			if sql {
				return provision.NewSetup(db, options).Print(cmd.Context())
			}
			dsn, err := owner.dsn(a, db)
			if err != nil {
				return err
			}
			if err := provision.NewSetup(db, options).Run(cmd.Context(), dsn); err != nil || !options.Backfill {
				return err
			}
			return a.repair(cmd.Context(), repair.Options{All: true}, owner)
		},
	}
	flags.add(cmd)
	owner.add(cmd)
	cmd.Flags().BoolVar(&sql, "print", false, "print the SQL instead of running it")
	cmd.Flags().BoolVar(&options.Backfill, "backfill", false, "then publish every row of the tables, also those from before the slot or the first position")
	return cmd
}
