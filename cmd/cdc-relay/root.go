package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/config"
)

// cli is what all commands share.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// env looks a variable up, as os.LookupEnv does.
	env func(string) (string, bool)
	// configPath is --config.
	configPath string
	// started is set once the command line is parsed: an earlier error is a usage error.
	started bool
}

const (
	defaultConfig = "cdc-relay.yaml"
	envConfig     = "CDC_RELAY_CONFIG"
)

// load reads the configuration file that the command line names.
func (a *cli) load() (*config.Config, error) { return config.Load(a.configPath, a.env) }

// withConfig is the action of a command that reads the configuration.
func (a *cli) withConfig(fn func(ctx context.Context, c *config.Config, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.load()
		if err != nil {
			return err
		}
		return fn(cmd.Context(), c, args)
	}
}

// withDatabase is the action of a command that also needs the database.
func (a *cli) withDatabase(fn func(ctx context.Context, c *config.Config, db app.Database, args []string) error) func(*cobra.Command, []string) error {
	return a.withConfig(func(ctx context.Context, c *config.Config, args []string) error {
		return fn(ctx, c, app.NewDatabase(c), args)
	})
}

// printf writes to standard output. It ignores errors: the reader may have closed the pipe.
func (a *cli) printf(format string, args ...any) { _, _ = fmt.Fprintf(a.stdout, format, args...) }

// when returns a text if something is so.
func when(so bool, text string) string {
	if so {
		return text
	}
	return ""
}

// confirm asks a question; it returns an error that says why nothing was done, unless the answer is yes.
func (a *cli) confirm(question, nothing string) error {
	_, _ = fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	var answer string
	_, _ = fmt.Fscanln(a.stdin, &answer)
	if answer == "y" || answer == "yes" {
		return nil
	}
	_, _ = fmt.Fprintln(a.stderr)
	return cdc.Usage("answer y, or give --yes", "%s", nothing)
}

func newRootCommand(a *cli) *cobra.Command {
	root := group("cdc-relay", "Publish committed outbox events from PostgreSQL, MySQL or MariaDB to Kafka, in commit order per key")
	root.Long = root.Short + `.

Exit codes: 0 done, 1 runtime error, 2 usage or configuration, 3 check failed, 4 fenced by another relay,
5 position lost.`
	root.Example = "  cdc-relay setup\n  cdc-relay check\n  cdc-relay run"
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = versionLine(buildVersion())
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		a.started = true
		tellSuccessors(a.stderr, cmd)
		checkpoint.LogTo(slog.New(slog.DiscardHandler)) // the relay's own errors say what matters
	}
	root.SetFlagErrorFunc(flagError)
	path := defaultConfig
	if named, ok := a.env(envConfig); ok && named != "" {
		path = named
	}
	root.PersistentFlags().StringVarP(&a.configPath, "config", "c", path, "configuration `file`, also "+envConfig)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.AddCommand(
		newRunCommand(a), newRepairCommand(a), newBackfillCommand(a), newReplayCommand(a), newEventCommand(a), newCheckCommand(a), newInitCommand(a), newSetupCommand(a), newTeardownCommand(a), newSchemaCommand(a),
		newPositionCommand(a), newRetentionCommand(a), newDLQCommand(a), newStatusCommand(a), newRouteCommand(a), newConfigCommand(a), newVersionCommand(a),
		formerly("partitions", "retention", newRetentionListCommand(a), newRetentionRunCommand(a)),
	)
	return root
}

// group is a command that only has subcommands. Without arguments it prints its help; an unknown subcommand is an error
// that suggests the nearest one.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(cmd, args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(commands...)
	return cmd
}

// formerly is a group under its old name, for one release.
func formerly(old, name string, commands ...*cobra.Command) *cobra.Command {
	for _, cmd := range commands {
		cmd.Hidden, cmd.Annotations = true, map[string]string{successor: name + " " + cmd.Name()}
	}
	cmd := group(old, "", commands...)
	cmd.Hidden = true
	return cmd
}

// flagError adds the fix, unless the flag's own type has one.
func flagError(cmd *cobra.Command, err error) error {
	if cdc.Fix(err) != "" {
		return err
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		kind := map[string]string{
			"int": "a whole number", "duration": "a duration such as 10m", "bool": "true or false", "time": "a time with its zone, such as 2026-01-02T15:04:05Z",
		}[bad.GetFlag().Value.Type()]
		err = fmt.Errorf("invalid argument %q for \"--%s\" flag: not %s", bad.GetValue(), bad.GetFlag().Name, kind)
	}
	if gone, ok := errors.AsType[*pflag.NotExistError](err); ok && gone.GetSpecifiedName() == "start-from" { // of 0.1.0
		return cdc.Fixable("set the position once, with `cdc-relay position set earliest`, or `cdc-relay position set current --skip-events`", "--start-from is no flag any more")
	}
	return cdc.Fixable(fmt.Sprintf("run `%s --help` for the flags", cmd.CommandPath()), "%w", err)
}

// noArgs is cobra.NoArgs with a fix.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return cdc.Fixable("remove it", "`%s` takes no argument, but got %q", cmd.CommandPath(), args[0])
}

func unknownCommand(cmd *cobra.Command, word string) error {
	fix := fmt.Sprintf("run `%s --help` for the commands", cmd.CommandPath())
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		fix = fmt.Sprintf("did you mean %s?", near[0])
	}
	switch word { // commands of 0.1.0
	case "tail":
		fix = "read the topic with a Kafka consumer, or run `cdc-relay run --dry-run` to see what would be published"
	case "apply":
		fix = "run `cdc-relay setup`, which makes the table, or `cdc-relay retention run --ahead 14`, which makes partitions"
	}
	return cdc.Fixable(fix, "unknown command %q for %s", word, cmd.CommandPath())
}
