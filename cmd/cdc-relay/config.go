package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
)

func newConfigCommand(a *cli) *cobra.Command {
	return group("config", "Validate and show the configuration",
		newConfigValidateCommand(a), newConfigShowCommand(a), newConfigSchemaCommand(a))
}

func newConfigValidateCommand(a *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "validate",
		Short: "Report every error in the configuration file with its line and column",
		Long: `Read the configuration file as run does, with its references to the environment and to files, and report every
error with its line and column. No server is contacted; cdc-relay check does that.`,
		Example: "  cdc-relay config validate --config orders.yaml",
		Args:    noArgs,
		RunE: a.withDatabase(func(_ context.Context, c *config.Config, db app.Database) error {
			if err := admin.ValidateWebConfig(c.HTTP.WebConfig); err != nil {
				return err
			}
			r, err := app.Router(c, db.Tables()) // some errors only the stages' own validation finds
			if err != nil {
				return err
			}
			for _, w := range c.Warnings() {
				a.printf("warn  %s\n", cdc.Sentence(w.Text, w.Fix))
			}
			for _, m := range r.Warnings() {
				a.printf("warn  %s\n", cdc.Explain(m))
			}
			a.printf("ok  %s\n", a.configPath)
			return nil
		}),
	}
}

func newConfigShowCommand(a *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Print the configuration with defaults filled in and secrets hidden",
		Long: `Print the effective configuration as YAML: defaults filled in, references expanded, passwords as ***.
The output holds no secrets.`,
		Example: "  cdc-relay config show",
		Args:    noArgs,
		RunE:    a.withConfig(func(_ context.Context, c *config.Config) error { return c.Show(a.stdout) }),
	}
}

func newConfigSchemaCommand(a *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of the configuration file",
		Long: `Print the JSON schema (draft 2020-12) of the configuration file. Editors use it to complete and check the
file: put "# yaml-language-server: $schema=cdc-relay.schema.json" on the file's first line.`,
		Example: "  cdc-relay config schema > cdc-relay.schema.json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if _, err := a.stdout.Write(config.Schema()); err != nil {
				return fmt.Errorf("write schema: %w", err)
			}
			return nil
		},
	}
}
