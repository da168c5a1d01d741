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
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(page), from)
	_, after, ok := strings.Cut(rest, to)
	want := before + from + describe(newRootCommand(&cli{env: func(string) (string, bool) { return "", false }})) + "\n" + to + after
	switch {
	case !ok:
		t.Fatalf("%s has no marks", path)
	case *update:
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	case want != string(page):
		t.Errorf("%s is not current: run go generate ./cmd/cdc-relay", path)
	}
}

// describe returns what there is to know of each command. What three flags or more say alike stands at the end.
func describe(root *cobra.Command) string {
	var b strings.Builder
	uses, shared := map[string]int{}, map[string]bool{}
	visit(root, func(cmd *cobra.Command) {
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { uses[flagLine(f)]++ })
	})
	visit(root, func(cmd *cobra.Command) {
		fmt.Fprintf(&b, "\n### %s\n\n%s: `%s`\n", strings.TrimPrefix(cmd.CommandPath(), "cdc-relay "), cmd.Short, strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		var own, also []string
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			switch line := flagLine(f); {
			case f.Name == "help" || f.Hidden:
			case uses[line] > 2:
				shared[line] = true
				also = append(also, "`--"+f.Name+"`")
			default:
				own = append(own, line)
			}
		})
		if also != nil {
			own = append(own, "- "+strings.Join(also, ", ")+": [below](#flags-of-several-commands)")
		}
		if own != nil {
			b.WriteString("\n" + strings.Join(own, "\n") + "\n")
		}
	})
	b.WriteString("\n### Flags of several commands\n\n" + strings.Join(slices.Sorted(maps.Keys(shared)), "\n") + "\n")
	return b.String()
}

// visit calls fn for each command that does something.
func visit(cmd *cobra.Command, fn func(*cobra.Command)) {
	for _, child := range cmd.Commands() {
		if child.Runnable() && !child.HasSubCommands() && !child.Hidden {
			fn(child)
		}
		visit(child, fn)
	}
}

func flagLine(f *pflag.Flag) string {
	kind, help := pflag.UnquoteUsage(f)
	if kind != "" && !slices.Contains([]string{"", "0", "0s", "[]"}, f.DefValue) && !strings.Contains(help, "default") {
		help += " (default " + f.DefValue + ")"
	}
	return fmt.Sprintf("- `%s`: %s", strings.TrimSpace("--"+f.Name+" "+kind), help)
}
