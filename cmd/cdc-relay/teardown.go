package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/provision"
)

func newTeardownCommand(a *cli) *cobra.Command {
	var (
		owner   ownerFlag
		sql     bool
		yes     bool
		options = provision.TeardownOptions{Printf: a.printf}
	)
	cmd := &cobra.Command{
		Use:   "teardown",
		Short: "Remove slot, publication and checkpoint",
		Long: `Remove what setup created: replication slot, publication and checkpoint. Events that are not published yet stay in the table and are not
published. Run it whenever a relay is retired: for a slot without a reader PostgreSQL keeps all WAL, until the disk is full.

Topics are kept. The table is kept unless --drop-table is given; then it is dropped with all its events, and what was detached from it, after
you type its name. Stop the relay first: a slot or a checkpoint file in use is not removed; a relay with Redis ends with exit code 4.

` + ownerHelp,
		Example: "  cdc-relay teardown\n  cdc-relay teardown --yes\n  cdc-relay teardown --drop-table\n  cdc-relay teardown --print",
		Args:    noArgs,
		RunE: a.withDatabase(func(ctx context.Context, c *config.Config, db app.Database, _ []string) error {
			if sql {
				provision.NewTeardown(c, db, options).Print()
				return nil
			}
			dsn, err := owner.dsn(ctx, a, c)
			if err != nil {
				return err
			}
			options.Confirm = a.confirmDrop
			if yes {
				options.Confirm = func(string, []outbox.Name, map[string][]string) error { return nil }
			}
			return provision.NewTeardown(c, db, options).Run(ctx, dsn)
		}),
	}
	owner.add(cmd)
	cmd.Flags().BoolVar(&options.WithTable, "drop-table", false, "drop the outbox table too, with all its events")
	renamed(cmd, "table", "drop-table")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&sql, "print", false, "print the SQL instead of running it")
	return cmd
}

// confirmDrop asks before a teardown: where tables are dropped, to type their names. taken lists what was taken out of each.
func (a *cli) confirmDrop(what string, tables []outbox.Name, taken map[string][]string) error {
	if len(tables) == 0 {
		return a.confirm("This drops "+what+". Events that are not published yet never are. Continue?", "nothing was dropped: teardown not confirmed")
	}
	in := bufio.NewReader(a.stdin)
	for _, name := range tables {
		parts := taken[name.String()]
		_, _ = fmt.Fprintf(a.stderr, "This drops %s with all its events%s. Type the table's name to continue: ", name,
			when(len(parts) > 0, ", also those of detached partitions ("+strings.Join(parts, ", ")+")"))
		typed, _ := in.ReadString('\n') // the end of the input is a no
		if typed = strings.TrimSpace(typed); typed != name.String() && typed != name.Table {
			_, _ = fmt.Fprintln(a.stderr)
			return cdc.Usage(fmt.Sprintf("type %s, or give --yes", name), "the table's name was not typed, and nothing was dropped")
		}
	}
	return nil
}
