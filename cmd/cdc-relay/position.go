package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/display"
)

func newPositionCommand(a *cli) *cobra.Command {
	cmd := group("position", "Show and change where the relay continues",
		newPositionShowCommand(a), newPositionSetCommand(a), newPositionResetCommand(a))
	cmd.Long = cmd.Short + `.

Stop the relay before its position is changed. With a checkpoint in Redis a relay that still runs can save no more, and ends with exit code 4.

On PostgreSQL the position is stored as the slot's confirmed_flush_lsn (S) and, if configured, as the checkpoint (C), from which a run
continues. On MySQL and MariaDB only the checkpoint has it.`
	return cmd
}

// withPositions is the action of a command about the positions of the configured relay.
func (a *cli) withPositions(fn func(ctx context.Context, p *app.Positions, args []string) error) func(*cobra.Command, []string) error {
	return a.withDatabase(func(ctx context.Context, c *config.Config, db app.Database, args []string) error {
		return app.WithPositions(ctx, c, db, a.printf, func(p *app.Positions) error { return fn(ctx, p, args) })
	})
}

func newPositionShowCommand(a *cli) *cobra.Command {
	var output outputFlag
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the positions of database and checkpoint, and where a run would continue",
		Long: `Show the stored positions and where a run would continue, or why it would refuse; on MySQL and MariaDB also the GTIDs that the server has
executed and purged. Nothing is changed; a relay may be running.`,
		Example: "  cdc-relay position show\n  cdc-relay position show -o json",
		Args:    noArgs,
		RunE: a.withPositions(func(ctx context.Context, p *app.Positions, _ []string) error {
			answer, lines, err := p.Show(ctx)
			if err != nil {
				return err
			}
			return output.print(a, answer, func() {
				for _, line := range lines {
					a.printf("%-20s %s\n", line[0], display.Escaped(line[1]))
				}
			})
		}),
	}
	output.add(cmd)
	return cmd
}

func newPositionSetCommand(a *cli) *cobra.Command {
	var skip bool
	cmd := &cobra.Command{
		Use:   "set POSITION",
		Short: "Continue from another position",
		Long: `Set the position from which the next run continues: an LSN on PostgreSQL and a GTID set on MySQL and MariaDB, as position show prints it;
or earliest, where the slot stands or the server's binlog begins, or current, what is committed now. Stop the relay first.

Moving back publishes events again, as far as the database keeps its WAL or binlog. Moving forward skips events, which are never published:
it needs --skip-events, and on PostgreSQL also moves the slot, which cannot be undone.`,
		Example: `  cdc-relay position set 16/B374D848
  cdc-relay position set 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-4711
  cdc-relay position set earliest`,
		Args: exactlyOne("a position, such as 16/B374D848, a GTID set, earliest or current"),
		RunE: a.withPositions(func(ctx context.Context, p *app.Positions, args []string) error { return p.Set(ctx, args[0], skip) }),
	}
	cmd.Flags().BoolVar(&skip, "skip-events", false, "move forward; events that are skipped are never published")
	renamed(cmd, "yes", "skip-events")
	return cmd
}

func exactlyOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return cdc.Fixable("give "+what, "%d arguments were given", len(args))
		}
		return nil
	}
}

func newPositionResetCommand(a *cli) *cobra.Command {
	var skip, force bool
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Delete the checkpoint and continue from the slot",
		Long: `Delete the stored checkpoint, and print its position. On PostgreSQL the next run continues from the slot, and publishes again what was
committed since; a slot that is ahead of the checkpoint needs --skip-events. On MySQL and MariaDB run refuses to start until position set or
repair --since gives a position.

A position in Kafka (delivery: exactly-once) of another relay needs --force. If only the checkpoint is another relay's, it alone is deleted.`,
		Example: "  cdc-relay position reset",
		Args:    noArgs,
		RunE:    a.withPositions(func(ctx context.Context, p *app.Positions, _ []string) error { return p.Reset(ctx, skip, force) }),
	}
	cmd.Flags().BoolVar(&skip, "skip-events", false, "continue from a slot that is ahead; the events before it are never published")
	cmd.Flags().BoolVar(&force, "force", false, "drop the position of another database, which this one has replaced")
	renamed(cmd, "yes", "skip-events")
	return cmd
}
