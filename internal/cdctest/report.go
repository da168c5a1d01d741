package cdctest

import (
	"errors"
	"fmt"
	"strings"
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

// mostShown is how many violations of each kind an error lists.
const mostShown = 10

// Err returns nil if there are no violations, otherwise the summary and the first violations of each kind.
func (r *Report) Err() error {
	if len(r.found) == 0 {
		return nil
	}
	var text strings.Builder
	text.WriteString(r.String())
	for _, kind := range []Kind{Lost, Order, Duplicates, Phantom, Content} {
		shown := 0
		for _, v := range r.found {
			if v.Kind != kind {
				continue
			}
			if shown++; shown > mostShown {
				fmt.Fprintf(&text, "\n  %s: … and %d more", kind, r.Count(kind)-mostShown)
				break
			}
			fmt.Fprintf(&text, "\n  %s: %s", kind, v.Text)
		}
	}
	return errors.New(text.String())
}
