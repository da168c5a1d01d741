package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate go test -run "^TestCommandsPage$" -update .

var update = flag.Bool("update", false, "write the page of commands")

// The page of commands has each command with its flags, from their help.
func TestCommandsPage(t *testing.T) {
	const path, from, to = "../../docs/commands.md", "<!-- commands -->\n", "<!-- end of commands -->\n"
	var commands []*cobra.Command
	for _, cmd := range newRootCommand(&cli{env: func(string) (string, bool) { return "", false }}).Commands() {
		if commands = append(commands, cmd.Commands()...); !cmd.HasSubCommands() {
			commands = append(commands, cmd)
		}
	}
	commands = slices.DeleteFunc(commands, func(cmd *cobra.Command) bool { return cmd.Hidden })
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(page), from)
	_, after, _ := strings.Cut(rest, to)
	want := before + from + described(commands) + "\n" + to + after
	if *update {
		err = os.WriteFile(path, []byte(want), 0o644)
	}
	if err != nil || !*update && want != string(page) {
		t.Errorf("%s is not current: run go generate ./cmd/cdc-relay (%v)", path, err)
	}
}

// described returns what there is to know of commands. A flag that two or more have alike stands at the end.
func described(commands []*cobra.Command) string {
	var b strings.Builder
	uses, shared := map[string]int{}, map[string]bool{}
	for _, cmd := range commands {
		shown(cmd, func(f *pflag.Flag) { uses[flagLine(f)]++ })
	}
	for _, cmd := range commands {
		fmt.Fprintf(&b, "\n### %s\n\n%s%s\n\n", strings.TrimPrefix(cmd.CommandPath(), "cdc-relay "), cmd.Short, arguments(cmd))
		var also []string
		shown(cmd, func(f *pflag.Flag) {
			if line := flagLine(f); uses[line] < 2 {
				b.WriteString(line)
			} else {
				shared[line], also = true, append(also, "`--"+f.Name+"`")
			}
		})
		if also != nil {
			b.WriteString("- " + strings.Join(also, ", ") + ": [below](#flags-of-several-commands)\n")
		}
	}
	return b.String() + "\n### Flags of several commands\n\n" + strings.Join(slices.Sorted(maps.Keys(shared)), "")
}

// arguments is how the command is called, if that is more than its name.
func arguments(cmd *cobra.Command) string {
	use := strings.TrimSuffix(cmd.UseLine(), " [flags]")
	if use == cmd.CommandPath() {
		return ""
	}
	return ": `" + use + "`"
}

func shown(cmd *cobra.Command, see func(*pflag.Flag)) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			see(f)
		}
	})
}

func flagLine(f *pflag.Flag) string {
	kind, help := pflag.UnquoteUsage(f)
	if !slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue) && !strings.Contains(help, "default") {
		help += " (default " + f.DefValue + ")"
	}
	return fmt.Sprintf("- %#q: %s\n", strings.TrimSpace("--"+f.Name+" "+kind), help)
}
