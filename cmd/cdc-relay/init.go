package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/provision"
)

// envDatabase is the variable that the example configurations name for the relay's connection.
const envDatabase = "DATABASE_URL"

func newInitCommand(a *cli) *cobra.Command {
	var (
		owner  ownerFlag
		tables []string
		path   string
	)
	cmd := &cobra.Command{
		Use:   "init --table TABLE",
		Short: "Write a configuration for outbox tables that exist",
		Long: `Look at the columns of outbox tables, and write a configuration for them with the reason for each line. No configuration
is needed, no row is read, and nothing is changed. What no name of a column tells is chosen by its type, and a comment says what to correct.

The connection is that of --owner-dsn or ` + app.EnvOwner + `, or else that of ` + envDatabase + `. The configuration names
` + envDatabase + ` if that leads to the same database, and otherwise has the connection without its password.`,
		Example: `  DATABASE_URL="$(cat dsn)" cdc-relay init --table public.outbox
  cdc-relay init --table orders_outbox --table billing_outbox -o cdc-relay.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(tables) == 0 {
				return cdc.Usage("name one with --table", "no table is given")
			}
			o, err := a.connection(&owner)
			if err != nil {
				return err
			}
			o.Tables = tables
			text, err := provision.Init(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.writeConfig(path, text)
		},
	}
	cmd.Flags().StringArrayVar(&tables, "table", nil, "the `table`, as tables[].name has it (may be repeated)")
	cmd.Flags().StringVar(&owner.value, "owner-dsn", "", "`connection` of a role that may see the tables, also "+app.EnvOwner+" (default "+envDatabase+")")
	cmd.Flags().StringVarP(&path, "out", "o", "", "write a new `file` instead of printing")
	return cmd
}

// connection returns the connection for init.
func (a *cli) connection(owner *ownerFlag) (o provision.InitOptions, err error) {
	o.Variable = envDatabase
	o.Relay, _ = a.env(envDatabase)
	if o.DSN = cmp.Or(owner.given(a), o.Relay); o.DSN == "" {
		err = cdc.Usage("set "+envDatabase+" or "+app.EnvOwner+" to a connection string such as postgres://app@localhost:5432/orders or mysql://app@localhost:3306/orders",
			"no database is given")
	}
	return o, err
}

// writeConfig prints the text, or writes it into a file that does not exist.
func (a *cli) writeConfig(path, text string) error {
	if path == "" {
		a.printf("%s", text)
		return nil
	}
	err := writeNew(path, text)
	switch {
	case errors.Is(err, fs.ErrExist):
		return cdc.Usage("name another file with -o, or remove it", "%s exists, and init replaces no file", path)
	case err != nil:
		return fmt.Errorf("write the configuration: %w", err)
	}
	a.printf("%s: written; read its comments, then verify with `cdc-relay config validate --config %[1]s`\n", path)
	return nil
}
