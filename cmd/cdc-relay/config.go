package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
)

func newConfigCommand(a *cli) *cobra.Command {
	return group("config", "Validate and show the configuration",
		newConfigValidateCommand(a), newConfigShowCommand(a), newConfigSchemaCommand(a), newConfigMigrateCommand(a))
}

func newConfigValidateCommand(a *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "validate",
		Short: "Report every error in the configuration file with its line and column",
		Long: `Read the configuration file as run does, with its references to the environment and to files, and report every
error with its line and column. No server is contacted; cdc-relay check does that.`,
		Example: "  cdc-relay config validate --config orders.yaml",
		Args:    noArgs,
		RunE: a.withConfig(func(_ context.Context, c *config.Config, _ []string) error {
			if err := admin.ValidateWebConfig(c.HTTP.WebConfig); err != nil {
				return err
			}
			for _, w := range c.Warnings() {
				a.printf("warn  %s\n", cdc.Sentence(w.Text, w.Fix))
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
		RunE:    a.withConfig(func(_ context.Context, c *config.Config, _ []string) error { return c.Show(a.stdout) }),
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

func newConfigMigrateCommand(a *cli) *cobra.Command {
	write := false
	cmd := &cobra.Command{
		Use:   "migrate [FILE]",
		Short: "Give settings of the last release their present names",
		Long: `Print the configuration file with its settings under their present names, with its comments and in its order. Old
names are read for one release. What has changed is said on standard error.`,
		Example: "  cdc-relay config migrate cdc-relay.yaml\n  cdc-relay config migrate --write cdc-relay.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path := append(args, a.configPath)[0]
			text, changes, err := config.Migrate(path)
			if err != nil {
				return err
			}
			for _, w := range changes {
				_, _ = fmt.Fprintln(a.stderr, w.Text)
			}
			if len(changes) == 0 {
				_, _ = fmt.Fprintln(a.stderr, "nothing to change")
			}
			if !write {
				a.printf("%s", text)
				return nil
			}
			beside := path + ".new" // stays if the file is cut short. One that is renamed would lose owner and links
			for _, to := range []string{beside, path} {
				if err := os.WriteFile(to, text, 0o600); err != nil { // which keeps the mode of a file that exists
					return fmt.Errorf("write %s: %w", to, err)
				}
			}
			return os.Remove(beside)
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "rewrite the file in place")
	return cmd
}
