package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
)

// outputFlag is the flag -o, --output: text for people or json for programs.
type outputFlag struct{ value string }

const outputJSON = "json"

func (f *outputFlag) add(cmd *cobra.Command) {
	f.value = "text"
	cmd.Flags().VarP(&choice[string]{&f.value, []string{f.value, outputJSON}}, "output", "o", "text or json")
}

// print writes v, or calls text.
func (f *outputFlag) print(a *cli, v any, text func()) error {
	if f.value == outputJSON {
		return printJSON(a.stdout, v)
	}
	text()
	return nil
}

// successor is the annotation of a flag or command that is read for one more release. cobra's own notices go to standard output, among what
// programs read.
const successor = "successor"

// renamed takes a flag's old name, too, for one release.
func renamed(cmd *cobra.Command, old, name string) {
	f := *cmd.Flags().Lookup(name)
	f.Name, f.Shorthand = old, ""
	cmd.Flags().AddFlag(&f)
	replaced(cmd.Flags().Lookup(old), "--"+name)
}

func replaced(f *pflag.Flag, by string) {
	f.Hidden, f.Annotations = true, map[string][]string{successor: {by}}
}

// tellSuccessors says what to use in place of a command and its flags.
func tellSuccessors(w io.Writer, cmd *cobra.Command) {
	if by, gone := cmd.Annotations[successor]; gone {
		_, _ = fmt.Fprintf(w, "%s is read for one more release: use `cdc-relay %s`\n", cmd.CommandPath(), by)
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, by := range f.Annotations[successor] {
			_, _ = fmt.Fprintf(w, "--%s is read for one more release: use %s\n", f.Name, by)
		}
	})
}

// choice is a flag with a fixed set of values.
type choice[T ~string] struct {
	value *T
	known []T
}

// addChoice adds a flag that takes one of known; the first is the default.
func addChoice[T ~string](cmd *cobra.Command, value *T, name, help string, known ...T) {
	*value = known[0]
	cmd.Flags().Var(&choice[T]{value, known}, name, help)
}

// Set takes one of the known values.
func (c *choice[T]) Set(s string) error {
	if !slices.Contains(c.known, T(s)) {
		last := len(c.known) - 1
		return cdc.Fixable("use "+join(c.known[:last], ", ")+" or "+string(c.known[last]), "unknown value")
	}
	*c.value = T(s)
	return nil
}

// String returns the flag's value.
func (c *choice[T]) String() string { return string(*c.value) }

// Type lists the known values in the help.
func (c *choice[T]) Type() string { return join(c.known, "|") }

func join[T ~string](words []T, separator string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return strings.Join(list, separator)
}

// printJSON writes v as indented JSON and a newline.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// ownerFlag is --owner-dsn: creating tables and publications needs other rights than replication.
type ownerFlag struct{ value string }

const ownerHelp = `Creating the table and the publication needs the table's owner and CREATE on the database; the relay's own
role should have neither. Set ` + app.EnvOwner + ` to the owner's connection string. --owner-dsn takes it too, but
other users of this machine can read arguments.`

func (f *ownerFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.value, "owner-dsn", "", "`connection` of the table's owner, also "+app.EnvOwner+" (default the dsn of source)")
}

// dsn returns the owner's connection string: the flag's, the environment's, or the relay's own.
func (f *ownerFlag) dsn(ctx context.Context, a *cli, c *config.Config) (app.ConnString, error) {
	return app.OwnerConnString(ctx, c, f.given(a))
}

func (f *ownerFlag) given(a *cli) string {
	if f.value != "" {
		return f.value
	}
	value, _ := a.env(app.EnvOwner)
	return value
}
