package cleanup

import (
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/display"
)

// Condition names a table's condition in a checkpoint. letters is the topic of dead letters, "" for none: without it nothing tells which rows
// have one.
func Condition(table, pending, letters string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(table + "\x00" + pending + "\x00" + letters))
	return fmt.Sprintf("%016x", h.Sum64())
}

// MarkOptions are how published rows are marked.
type MarkOptions struct {
	Tables []cdc.RowAction
	// Letters returns the events of a table that are dead letters at present.
	Letters  func(table string) deadletter.Events
	Problems *cdc.Problems
}

type marks struct{ MarkOptions }

const (
	// marksRead is how many rows are read at once, and maxWaiting how many may wait for the position.
	marksRead  = 20_000
	maxWaiting = 100_000
	// A batch is marked in one transaction: a part of what was read, since a larger one holds writers and the relay's reader up for longer,
	// and smaller ones take longer in all.
	parts, largest = 16, 1000
	// maxUnproven limits the unproven IDs that are kept: with more, no row is marked.
	maxUnproven = 100_000
	// ledBegun is when a proof begins, unless another table has taken the place of its table.
	ledBegun = "this relay began to lead"
)

// NewMarks returns what marks published rows while the relay leads, and registers its metrics.
func NewMarks(o MarkOptions, open Tables, log *slog.Logger, reg prometheus.Registerer) *Sweeper {
	s := &Sweeper{
		open: open, log: log, failed: "published rows not marked", every: 10 * time.Second, tick: 100 * time.Millisecond, patience: time.Minute,
		limit: marksRead, maxWaiting: maxWaiting, batch: func(rows int) int { return min(max(few, rows/parts), largest) }, pause: 5 * time.Millisecond,
		counted: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Namespace: "cdc_relay", Name: "rows_marked_total", Help: "Rows marked in outbox tables because of write_back.",
		}, []string{"table"}),
		errors: errorsOf("write_back", reg),
		marks:  &marks{o},
	}
	for i := range o.Tables {
		s.counted.WithLabelValues(o.Tables[i].Table) // a rate needs the 0 before the first
	}
	return s
}

// marking is what is known of the rows of a table that are pending: which of them may not have been published. It begins anew with each
// attempt to lead: a position may have been moved in between.
type marking struct {
	*marks
	*cdc.RowAction

	kept cdc.Kept
	// settled: each of them was published, or comes behind the position. Otherwise those that are unproven may not have been.
	settled      bool
	unproven     map[string]struct{} // nil: not read yet, or too many
	letters      int                 // dead letters at the last look
	replacements string              // [cdc.Progress.Replaced] that is taken into account
	begun        string              // since when: the relay leads, or another table is in the place of this one
}

// of returns what is known of a table; nil where rows are deleted.
func (m *marks) of(a *cdc.RowAction, kept cdc.Kept, known map[string]*marking) *marking {
	if m == nil {
		return nil
	}
	if known[a.Table] == nil {
		known[a.Table] = &marking{marks: m, RowAction: a, kept: kept, begun: ledBegun}
	}
	return known[a.Table]
}

// replaced reports whether another table is in the place of this one since the last call. Then the proof begins anew with what is pending
// in that one, because its rows were not published under its former name.
func (m *marking) replaced() bool {
	if m == nil {
		return false
	}
	all := m.kept.Saved().Progress.Replaced
	if all == m.replacements {
		return false
	}
	since := strings.Split(strings.TrimPrefix(all, m.replacements), "\n") // it only grows
	if m.replacements = all; !slices.Contains(since, m.Table) {
		if m.settled {
			m.kept.Settle(m.Condition)
		}
		return false
	}
	m.settled, m.unproven, m.letters, m.begun = false, nil, 0, "another table took its place"
	return true
}

// most is how many rows are read so that rows are found beside those that are left alone. It finds out whether the checkpoint says that the
// condition is settled.
func (m *marking) most(rows int) int {
	if m.unproven == nil && m.begun == ledBegun && slices.Contains(strings.Fields(m.kept.Saved().Settled), m.Condition) {
		m.settled, m.unproven = true, map[string]struct{}{}
	}
	if m.unproven == nil {
		return maxUnproven + 1
	}
	return rows + len(m.unproven) + m.letters
}

// ready leaves out what is unproven, and dead letters that are to stay as they are. all is whether no other rows are pending.
func (m *marking) ready(keys []cdc.RowKey, all bool) []cdc.RowKey {
	m.prove(keys, all)
	letters := m.Letters(m.Table)
	m.letters = len(letters)
	if m.unproven == nil {
		return nil
	}
	if len(m.OnDeadLetter) > 0 {
		letters = nil
	}
	return slices.DeleteFunc(keys, func(k cdc.RowKey) bool {
		_, unproven := m.unproven[k.ID]
		return unproven || letters.Has(k.ID)
	})
}

// prove finds out whether the condition is settled.
func (m *marking) prove(keys []cdc.RowKey, all bool) {
	if m.settled {
		return
	}
	if !all { // too many at first, or not read whole
		return
	}
	before := m.unproven
	still := map[string]struct{}{}
	for _, k := range keys {
		if _, ok := before[k.ID]; ok || before == nil {
			still[k.ID] = struct{}{}
		}
	}
	m.unproven = still
	if len(still) == 0 {
		m.settled = true
		m.kept.Settle(m.Condition)
	}
}

// split tells rows whose events are published from those of dead letters, as far as they are marked. The letters are asked for now: each
// event became one before a position behind it was saved.
func (m *marking) split(keys []cdc.RowKey) (published, dead []cdc.RowKey) {
	letters := m.Letters(m.Table)
	for _, k := range keys {
		if !letters.Has(k.ID) {
			published = append(published, k)
		} else if len(m.OnDeadLetter) > 0 {
			dead = append(dead, k)
		}
	}
	return published, dead
}

// problem says which rows are left alone; nil: none.
func (m *marking) problem() error {
	const fix = "publish those that were not, set the status of all of them by hand, and the next ones are marked as all others"
	if m.unproven == nil {
		return cdc.Fixable(fix, "table %s: no row is marked: more than %d were pending when %s, and nothing tells whether they were published", m.Table, maxUnproven, m.begun)
	}
	if len(m.unproven) == 0 {
		return nil
	}
	return cdc.Fixable(fix, "table %s: %s left as found, that of event %s among them: pending when %s, and nothing tells whether they were published",
		m.Table, display.Plural(len(m.unproven), "row"), slices.Min(slices.Collect(maps.Keys(m.unproven))), m.begun)
}
