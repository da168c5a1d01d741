package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Problem is one fault of a configuration file.
type Problem struct {
	File string
	// Line and Column count from 1; 0 where the fault has no place, as in an empty file.
	Line, Column int
	// Path is the key, as in kafka.brokers[0]; "" where the whole file is meant.
	Path string
	// Text continues the path and says what is wrong.
	Text string
	// Fix is what to do about it; "" where Text says it.
	Fix string
}

// Error returns "file:line:column: path text. Fix: fix." on one line.
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path + " ")
	}
	b.WriteString(p.Text)
	return cdc.Sentence(b.String(), p.Fix)
}

// maxProblems is how many problems are told at once.
const maxProblems = 20

// Problems are the faults of a configuration file, in the order of its lines.
type Problems []Problem

// Error returns a line for each problem, at most 20 of them.
func (ps Problems) Error() string {
	lines := make([]string, 0, min(len(ps), maxProblems)+1)
	for i, p := range ps {
		if i == maxProblems {
			lines = append(lines, p.File+": and more; fix these first")
			break
		}
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
