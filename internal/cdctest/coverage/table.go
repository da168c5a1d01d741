package coverage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Table returns the table of test/docs/faults.md.
func Table(all []Declaration) string {
	var b strings.Builder
	b.WriteString("| fault and tests | database | mode | counted |\n|---|---|---|---|\n")
	shown := map[string]bool{}
	for _, r := range matrix() {
		fmt.Fprintf(&b, "| **%d. %s**: %s | %s | | |\n", r.number, capital(r.fault), r.result, r.exceptions())
		for i := range all {
			d := &all[i]
			if !slices.Contains(d.Rows, r.number) {
				continue
			}
			text := "`" + d.Test + "`"
			if d.Shows != "" && !shown[d.Dir+d.Test] {
				text += ": " + strings.ReplaceAll(d.Shows, "|", `\|`)
			}
			shown[d.Dir+d.Test] = true
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", text, named(d.Databases), strings.Join(d.Modes, ", "), strings.Join(d.Counts, ", "))
		}
	}
	return b.String()
}

// Kinds lists what a test may count, for the text above the table.
func Kinds() string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(kinds())) {
		fmt.Fprintf(&b, "- %s: %s\n", kind, kinds()[kind])
	}
	return b.String()
}

func capital(text string) string {
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
}

// exceptions says where the row does not apply.
func (r *row) exceptions() string {
	if r.noCommit != "" {
		return "not at-least-once: " + r.noCommit
	}
	reasons := map[string][]string{}
	for _, database := range databases() {
		if reason := r.except[database]; reason != "" {
			reasons[reason] = append(reasons[reason], database)
		}
	}
	var texts []string
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		texts = append(texts, "not on "+named(reasons[reason])+": "+reason)
	}
	return strings.Join(texts, "; ")
}

// named names databases as people do.
func named(list []string) string {
	if len(list) == len(databases()) {
		return "all"
	}
	names := make([]string, len(list))
	for i, d := range list {
		names[i] = map[string]string{Postgres: "PostgreSQL", MySQL: "MySQL", MariaDB: "MariaDB"}[d]
	}
	return strings.Join(names, ", ")
}
