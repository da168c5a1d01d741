package cdctest

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

var (
	// inBackticks is what a message says to type, placeholder a word in it that the user replaces.
	inBackticks = regexp.MustCompile("`([^`\n]+)`")
	placeholder = regexp.MustCompile(`\b[A-Z]{3,}\b|\.\.\.|…`)
)

// Printed returns what a message says, in backticks, to type: a command, SQL or a setting that begins with start. fill are
// placeholders and what to put in their places: "TIME", "2026-01-02T00:00:00Z". It is an error if the message says no such thing, if
// it says two, of which none is start itself, or if it leaves out what the user is to put in.
func Printed(message, start string, fill ...string) (string, error) {
	var found []string
	for _, m := range inBackticks.FindAllStringSubmatch(message, -1) {
		if strings.HasPrefix(m[1], start) && !slices.Contains(found, m[1]) {
			found = append(found, m[1])
		}
	}
	if slices.Contains(found, start) {
		found = []string{start}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("want one %q in backticks, found %q in %s", start, found, message)
	}
	text := found[0]
	for i := 0; i+1 < len(fill); i += 2 {
		if !strings.Contains(text, fill[i]) {
			return "", fmt.Errorf("%q has no %s", text, fill[i])
		}
		text = strings.ReplaceAll(text, fill[i], fill[i+1])
	}
	if left := placeholder.FindString(text); strings.HasPrefix(text, program) && left != "" {
		return "", fmt.Errorf("%q cannot be typed: what is %q?", text, left)
	}
	return text, nil
}

const program = "cdc-relay "

// PrintedCommand returns the arguments of a command that [Printed] returns, as a shell takes them apart: start is like "repair".
func PrintedCommand(ctx context.Context, message, start string, fill ...string) ([]string, error) {
	text, err := Printed(message, program+start, fill...)
	if err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, "sh", "-c", "for word in "+strings.TrimPrefix(text, program)+`; do printf '%s\0' "$word"; done`).Output()
	if err != nil {
		return nil, fmt.Errorf("a shell does not take %q: %w", text, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}
