package cdctest

import (
	"errors"
	"fmt"
	"strings"
)

// Report is what Check found.
type Report struct {
	// Committed are the events that were to be published, Delivered those that were, Records all records.
	Committed, Delivered, Records int
	Duplicates                    int
	// MostRepeats is the largest number of events that came again after one fault.
	MostRepeats int

	found []violation
}

// violation is a promise that was not kept.
type violation struct {
	Kind Kind
	Text string
}

func (r *Report) add(kind Kind, format string, args ...any) {
	r.found = append(r.found, violation{kind, fmt.Sprintf(format, args...)})
}

// Count returns how many violations of a kind there are.
func (r *Report) Count(kind Kind) int {
	n := 0
	for _, v := range r.found {
		if v.Kind == kind {
			n++
		}
	}
	return n
}

// String is the summary in one line.
func (r *Report) String() string {
	return fmt.Sprintf("%d committed, %d delivered, %d lost, %d duplicates (at most %d after one fault), %d order violations, %d phantoms, %d with wrong content",
		r.Committed, r.Delivered, r.Count(Lost), r.Duplicates, r.MostRepeats, r.Count(Order), r.Count(Phantom), r.Count(Content))
}

// mostShown bounds how many violations of one kind an error shows.
const mostShown = 10

// Err is nil when every promise was kept, or the summary and the first violations of each kind.
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
