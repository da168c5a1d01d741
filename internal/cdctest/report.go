package cdctest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Report is what Check found.
type Report struct {
	// Committed is how many events must be published, Delivered how many were, Records the number of records.
	Committed, Delivered, Records int
	Duplicates                    int
	// MostRepeats is the largest number of repeats after one fault.
	MostRepeats int

	found []violation
}

// violation is a broken promise.
type violation struct {
	Kind Kind
	Text string
}

func (r *Report) add(kind Kind, format string, args ...any) {
	r.found = append(r.found, violation{kind, fmt.Sprintf(format, args...)})
}

// forget removes the violations of a kind.
func (r *Report) forget(kind Kind) {
	r.found = slices.DeleteFunc(r.found, func(v violation) bool { return v.Kind == kind })
}

// Count returns the number of violations of a kind.
func (r *Report) Count(kind Kind) int {
	n := 0
	for _, v := range r.found {
		if v.Kind == kind {
			n++
		}
	}
	return n
}

// String returns a summary in one line.
func (r *Report) String() string {
	return fmt.Sprintf("%d committed, %d delivered, %d lost, %d duplicates (at most %d after one fault), %d order violations, %d phantoms, %d with wrong content",
		r.Committed, r.Delivered, r.Count(Lost), r.Duplicates, r.MostRepeats, r.Count(Order), r.Count(Phantom), r.Count(Content))
}

// mostShown is how many violations of each kind a text lists.
const mostShown = 10

// Err returns nil if there are no violations, otherwise the summary and the first violations of each kind.
func (r *Report) Err() error {
	if len(r.found) == 0 {
		return nil
	}
	lines := []string{r.String()}
	for _, kind := range kinds() {
		if r.Count(kind) > 0 {
			lines = append(lines, fmt.Sprintf("%s: %s", kind, r.text(kind)))
		}
	}
	return errors.New(strings.Join(lines, "\n  "))
}

// Fail reports the violations to the test, see Violation.
func (r *Report) Fail(tb testing.TB) {
	tb.Helper()
	for _, kind := range kinds() {
		if r.Count(kind) > 0 {
			Violation(tb, kind, "%s", r.text(kind))
		}
	}
}

// kinds are those that Check looks for.
func kinds() []Kind { return []Kind{Lost, Order, Duplicates, Phantom, Content} }

// text lists the first violations of a kind.
func (r *Report) text(kind Kind) string {
	var lines []string
	for _, v := range r.found {
		if v.Kind == kind {
			lines = append(lines, v.Text)
		}
	}
	if more := len(lines) - mostShown; more > 0 {
		lines = append(lines[:mostShown], fmt.Sprintf("… and %d more", more))
	}
	return strings.Join(lines, "\n    ")
}
