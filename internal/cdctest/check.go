package cdctest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Kind is a kind of violation.
type Kind string

// The kinds of violations.
const (
	Lost       Kind = "lost"       // committed and never published
	Order      Kind = "order"      // see Check
	Duplicates Kind = "duplicates" // more repeats than the fault before them allows
	Phantom    Kind = "phantom"    // published and not in the database, or excluded
	Content    Kind = "content"    // value or headers differ from the row's
	// Check does not look for these.
	Resurrected Kind = "resurrected" // a dead letter or a row that was done with is there again
	Unpublished Kind = "unpublished" // a row was deleted or a partition dropped before its events were published
)

// CheckOptions say what is allowed.
type CheckOptions struct {
	// Excluded are events that must not be published.
	Excluded map[uuid.UUID]bool
	// Faults are the faults after which repeats are allowed, in order of time.
	Faults []Fault
}

// Fault is a fault after which events may be repeated.
type Fault struct {
	Name string
	At   time.Time
	// Budget is how many events may be repeated: the window and the largest transaction. See Unbounded.
	Budget int
	// Since adds to Budget the events first published within this time before the fault: with the slot alone, these may
	// not have been confirmed.
	Since time.Duration
	// FromTable says that rows are read from the table, which does not tell their place in the WAL or binlog.
	FromTable bool
	// beside says that the leader goes on for a while beside the relay that takes over: each may use the whole budget.
	beside bool
}

// Unbounded as a budget allows any number of repeats.
const Unbounded = -1

// Check compares records with the committed events. The records of a partition must be in offset order. It checks these
// promises:
//
//   - Lost: every committed event that is not excluded was published.
//   - Order: for each key, first publications follow commit order; a replay is contiguous, that is, each record is
//     followed by the next event of its key or, where a replay begins, by an earlier one; and a key stays in one
//     partition.
//   - Duplicates: each repeat follows a fault, and no fault is followed by more repeats than it allows.
//   - Phantom: every record is of a committed event that is not excluded.
//   - Content: value and headers are the row's, and a repeat is byte for byte the same.
func Check(t *Truth, records []Record, o CheckOptions) *Report {
	c := &checker{
		truth: t, opts: o, report: &Report{Committed: t.Len() - len(o.Excluded), Records: len(records)},
		seen: make(map[uuid.UUID]*Record, t.Len()), streams: make(map[stream]*progress, len(t.streams)),
		repeats: make([]int, len(o.Faults)), firsts: make([]int, len(o.Faults)),
	}
	if err := t.ranked(o.Excluded); err != nil {
		c.report.add(Order, "%v", err)
	}
	for i := range records {
		c.record(&records[i])
	}
	c.lost()
	c.budgets()
	c.report.Delivered = len(c.seen)
	return c.report
}

type checker struct {
	truth   *Truth
	opts    CheckOptions
	report  *Report
	seen    map[uuid.UUID]*Record // first publications
	streams map[stream]*progress
	// For each fault: the number of repeats after it, and of first publications within Since before it.
	repeats, firsts []int
}

// progress is the state of a stream.
type progress struct {
	partition int32
	last      *fact   // of the last record
	lastAt    *Record // the last record
	front     *fact   // the furthest first publication
	place     string  // its ce_sequence
}

func (c *checker) record(r *Record) {
	f := c.truth.events[r.EventID]
	if f == nil {
		c.report.add(Phantom, "%s was published and is not in the database", describe(r, f))
		return
	}
	if c.opts.Excluded[r.EventID] {
		c.report.add(Phantom, "%s was published although the configuration excludes it", describe(r, f))
		return
	}
	c.content(r, f)
	first := c.seen[r.EventID]
	if first == nil {
		c.seen[r.EventID] = r
		c.first(r)
	} else {
		c.repeat(r, f, first)
	}
	c.order(r, f, first == nil)
}

func (c *checker) content(r *Record, f *fact) {
	switch {
	case r.Topic != f.stream.topic:
		c.report.add(Content, "%s belongs to topic %s", describe(r, f), f.stream.topic)
	case r.Key != f.stream.key:
		c.report.add(Content, "%s has the key %q", describe(r, f), r.Key)
	case r.Content != f.content:
		c.report.add(Content, "%s: value or headers are not the row's", describe(r, f))
	}
}

func (c *checker) repeat(r *Record, f *fact, first *Record) {
	c.report.Duplicates++
	if r.Whole != first.Whole && !slices.ContainsFunc(c.opts.Faults, func(f Fault) bool { return f.FromTable }) {
		c.report.add(Content, "%s differs from its first publication at offset %d", describe(r, f), first.Offset)
	}
	if i := c.faultBefore(r.Published); i >= 0 {
		c.repeats[i]++
		return
	}
	c.report.add(Duplicates, "%s repeats offset %d without a fault before it", describe(r, f), first.Offset)
}

// faultBefore returns the last fault at or before at, or -1.
func (c *checker) faultBefore(at time.Time) int {
	for i, f := range slices.Backward(c.opts.Faults) {
		if !f.At.After(at) {
			return i
		}
	}
	return -1
}

func (c *checker) first(r *Record) {
	for i := range c.opts.Faults {
		f := &c.opts.Faults[i]
		if f.Since > 0 && !r.Published.After(f.At) && r.Published.After(f.At.Add(-f.Since)) {
			c.firsts[i]++
		}
	}
}

func (c *checker) order(r *Record, f *fact, first bool) {
	p := c.streams[f.stream]
	if p == nil {
		p = &progress{partition: r.Partition}
		c.streams[f.stream] = p
	}
	if p.partition != r.Partition {
		c.report.add(Order, "%s: the key was in partition %d before", describe(r, f), p.partition)
		return
	}
	next := 0
	if p.last != nil {
		next = p.last.rank + 1
	}
	if f.rank > next {
		c.report.add(Order, "%s skips events after %s", describe(r, f), p.where())
	}
	if first && p.front != nil {
		if f.rank < p.front.rank {
			c.report.add(Order, "%s was first published after seq %d (%s)", describe(r, f), p.front.seq, p.where())
		} else if r.Place != "" && r.Place <= p.place {
			c.report.add(Order, "%s has ce_sequence %s, not above %s of seq %d", describe(r, f), r.Place, p.place, p.front.seq)
		}
	}
	if first && (p.front == nil || f.rank > p.front.rank) {
		p.front, p.place = f, r.Place
	}
	p.last, p.lastAt = f, r
}

func (p *progress) where() string {
	if p.last == nil {
		return "the start"
	}
	return fmt.Sprintf("seq %d at offset %d", p.last.seq, p.lastAt.Offset)
}

func (c *checker) lost() {
	for id, f := range c.truth.events {
		if c.seen[id] == nil && !c.opts.Excluded[id] {
			c.report.add(Lost, "event %s (key %s, seq %d, topic %s) was committed and not published", id, f.stream.key, f.seq, f.stream.topic)
		}
	}
}

func (c *checker) budgets() {
	for i := range c.opts.Faults {
		f := &c.opts.Faults[i]
		allowed := f.Budget + c.firsts[i]
		c.report.MostRepeats = max(c.report.MostRepeats, c.repeats[i])
		if f.Budget != Unbounded && c.repeats[i] > allowed {
			c.report.add(Duplicates, "%d repeats after %s at %s, at most %d are allowed",
				c.repeats[i], f.Name, f.At.Format(clock), allowed)
		}
	}
}

const clock = "15:04:05.000"

func describe(r *Record, f *fact) string {
	text := fmt.Sprintf("event %s in %s[%d]@%d (published %s by producer %d/%d)",
		r.EventID, r.Topic, r.Partition, r.Offset, r.Published.Format(clock), r.Producer, r.Epoch)
	if f != nil {
		text += fmt.Sprintf(", key %s, seq %d", f.stream.key, f.seq)
	}
	return text
}
