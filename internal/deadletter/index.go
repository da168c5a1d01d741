package deadletter

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Index is what a leading relay knows of the letters that are not resolved: which there are, in which order, and which keys they hold. It
// has none of their texts. The publisher changes it, in the order in which it accepts events.
//
// Safe for concurrent use.
type Index struct {
	opts    Options
	badMove func(from, to fmt.Stringer)
	size    atomic.Int64 // letters and what was dropped: 0 if no row has to be looked at

	mu      sync.Mutex
	epoch   uint64
	letters map[string]*letter
	held    map[string]*key
	keyless map[string]*letter // those that hold nothing
	// dropped has the partitions of letters that are or were dropped, by ID, until no start can read their rows again: such a row is passed over.
	dropped map[string]int32
	unmet   int
	blocked int
}

// Options limit an [Index].
type Options struct {
	// HoldKey keeps the order of a key; without it no letter holds anything.
	HoldKey bool
	// MaxLetters is how many there may be.
	MaxLetters int
}

// state is a letter's. A letter whose row comes again takes the place of an unmet one:
//
//	       acknowledged             Begin
//	writing ─────────────► stored ─────────► resolving ───► published: it is removed
//	                        ▲  ▲ │               │
//	unmet ──────────────────┘  └─┼───────────────┘
//	  │    its row was passed    │   failed, or not tried
//	  │                          ▼
//	  └────────────────────► dropping ───► dropped: it is removed, and remembered
//	      Begin, of a drop                 until its row cannot come again
type state uint8

const (
	unmet     state = iota // an earlier run wrote its entry, and its row may come again
	writing                // its entry and the letter are not acknowledged yet
	stored                 // it can be resolved
	resolving              // it is being published
	dropping               // it is never published
)

func (s state) String() string {
	return [...]string{"unmet", "writing", "stored", "resolving", "dropping"}[s]
}

// mayBecome is the table of moves.
func (s state) mayBecome(next state) bool {
	switch s {
	case unmet:
		return next == stored || next == dropping
	case stored:
		return next == resolving || next == dropping
	case writing, resolving:
		return next == stored
	case dropping:
	}
	return false
}

// leaves reports whether the letter is on its way out of the index.
func (s state) leaves() bool { return s == resolving || s == dropping }

// to moves l to another state: after add nothing else writes it.
func (x *Index) to(l *letter, next state) {
	if !l.state.mayBecome(next) {
		x.badMove(l.state, next)
	}
	if l.state == unmet {
		x.unmet--
		l.entry = nil
	}
	l.state = next
}

// letter is one that is not resolved; about 350 bytes with what refers to it.
type letter struct {
	Work

	table   string
	place   string
	ofTable bool // see cdc.OfTable
	key     *key // nil: it holds nothing
	state   state
	time    int64  // Unix, when it became a letter
	entry   *Entry // of an unmet one
}

// key is one that has letters.
type key struct {
	name    string
	letters []*letter // in order
}

// NewIndex returns that of what a start has read. passed reports whether the position to start from is behind a place; the rows of
// other places come again. Letters that are done are left out, but those that were dropped and come again are remembered. badMove is told of a change of a letter's state that is a mistake.
func NewIndex(opts Options, badMove func(from, to fmt.Stringer), entries map[string]*Entry, passed func(place string) bool) *Index {
	x := &Index{opts: opts, badMove: badMove, letters: map[string]*letter{}, held: map[string]*key{}, keyless: map[string]*letter{}, dropped: map[string]int32{}}
	ids := make([]string, 0, len(entries))
	for id, e := range entries {
		switch {
		case e.Done == "":
			ids = append(ids, id)
		case e.Done == Dropped && !passed(placeOf(id)):
			x.dropped[id] = e.Partition
		}
	}
	// In order each letter is appended to its key: inserting them takes quadratic time.
	slices.SortFunc(ids, func(a, b string) int { return entries[a].Order.Compare(entries[b].Order) })
	for _, id := range ids {
		e := entries[id]
		if l := x.add(id, e, unmet); passed(e.Place) {
			x.to(l, stored)
		}
		x.epoch = max(x.epoch, e.Order.Epoch)
	}
	x.epoch++
	x.resize()
	return x
}

func (x *Index) resize() { x.size.Store(int64(len(x.letters) + len(x.dropped))) }

// Any reports whether rows have to be looked at: there are letters, or some were dropped.
func (x *Index) Any() bool { return x.size.Load() > 0 }

// Events are the IDs of the events of a table that are dead letters.
type Events map[string]struct{}

// Has reports whether the event is one of them, or one whose ID begins in the same way: of a long ID letters have the first [maxID] bytes.
func (e Events) Has(id string) bool {
	if len(e) == 0 {
		return false
	}
	_, ok := e[Short([]byte(id))]
	return ok
}

// Events returns the events of a table that have letters.
func (x *Index) Events(table string) Events {
	if x.size.Load() == 0 {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	all := Events{}
	for id, l := range x.letters {
		if l.table == table {
			all[id[:strings.LastIndexByte(id, '@')]] = struct{}{}
		}
	}
	return all
}

// Full reports whether no event may be accepted any more, because there may be no more letters.
func (x *Index) Full() bool {
	if x.size.Load() == 0 {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.full()
}

// full does not count letters whose rows come again: these have to be accepted, or such letters could never be published.
func (x *Index) full() bool { return len(x.letters)-x.unmet >= x.opts.MaxLetters }

// Order returns that of an event which is met now.
func (x *Index) Order(seq uint64, row int32) Order { return Order{x.epoch, seq, row} }

// OrderOf returns the order of a letter that is written now: that of its row, unless it takes the place of one that an earlier run has written,
// and behind that one in its key is one whose own row does not come again, and which would overtake it: a repair reads its rows once more, if
// nobody deletes them, and not the log. taken reports that another row has the letter's ID.
func (x *Index) OrderOf(id string, row Order) (order Order, taken bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.letters[id]
	switch {
	case l == nil:
		return row, false
	case l.state != unmet:
		return row, true
	case l.key == nil || !l.ofTable: // the log comes again in order
		return row, false
	}
	for _, behind := range l.key.letters[l.key.find(l.Order):] {
		if behind.Order.Epoch == x.epoch {
			break
		}
		if behind.state != unmet || !behind.ofTable {
			return l.Order, false
		}
	}
	return row, false
}

// Met returns what is known of a row that an earlier run has met: the entry of its letter, or that this was dropped. id is called only if
// there are such letters.
func (x *Index) Met(id func() string) (unmetLetter *Entry, isDropped bool) {
	if x.size.Load() == 0 {
		return nil, false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.unmet == 0 && len(x.dropped) == 0 {
		return nil, false
	}
	name := id()
	if _, isDropped = x.dropped[name]; isDropped {
		return nil, true
	}
	if l := x.letters[name]; l != nil && l.state == unmet {
		return l.entry, false
	}
	return nil, false
}

// Gone returns letters that were dropped and whose row cannot come again, at most so many, with their partitions. passed reports whether
// the position that a start would have is behind a place.
func (x *Index) Gone(most int, passed func(place string) bool) map[string]int32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	gone := map[string]int32{}
	for id, partition := range x.dropped {
		if len(gone) == most {
			break
		}
		if x.letters[id] == nil && passed(placeOf(id)) {
			gone[id] = partition
		}
	}
	return gone
}

// Forget forgets those that [Index.Gone] has returned.
func (x *Index) Forget(gone map[string]int32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id := range gone {
		delete(x.dropped, id)
	}
	x.resize()
}

// Remembers reports whether the letter was dropped and its row may come again.
func (x *Index) Remembers(id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, ok := x.dropped[id]
	return ok
}

// Holds reports whether the key has letters.
func (x *Index) Holds(name []byte) bool {
	if x.size.Load() == 0 || len(name) == 0 {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.held[string(name)] != nil
}

// Precedes reports whether the key has a letter before o. In a chunk those that are being resolved do not count.
func (x *Index) Precedes(name string, o Order, chunk bool) bool {
	if x.size.Load() == 0 || name == "" {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	k := x.held[name]
	if k == nil {
		return false
	}
	for _, l := range k.letters { // in order, so that those of a chunk are the first
		if l.Order.Compare(o) >= 0 {
			return false
		}
		if !chunk || !l.state.leaves() {
			return true
		}
	}
	return false
}

// Add adds a letter that is being written, or takes the place of one that an earlier run has written.
func (x *Index) Add(id string, e *Entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old := x.letters[id]; old != nil {
		x.remove(old)
	}
	x.add(id, e, writing)
}

// add adds a letter in its first state.
func (x *Index) add(id string, e *Entry, first state) *letter {
	l := &letter{
		Work:  Work{ID: id, Partition: e.Partition, Order: e.Order, Blocked: e.Blocked(), Attempts: e.Attempts, Tried: e.Time},
		state: first, table: e.Table, place: e.Place, ofTable: cdc.OfTable(e.Place), time: e.Time.Unix(),
	}
	if e.Tried.After(e.Time) {
		l.Tried = e.Tried
	}
	x.letters[id] = l
	x.resize()
	if first == unmet {
		l.entry = e
		x.unmet++
	}
	if l.Blocked {
		x.blocked++
	}
	if name := e.HoldName(); name != "" && x.opts.HoldKey {
		k := x.held[name]
		if k == nil {
			k = &key{name: name}
			x.held[name] = k
		}
		l.key, l.Hold = k, k.name // all letters of a key have one text
		k.letters = slices.Insert(k.letters, k.find(l.Order), l)
	} else {
		x.keyless[id] = l
	}
	return l
}

// find returns the index of the first letter that is not before o.
func (k *key) find(o Order) int {
	i, _ := slices.BinarySearchFunc(k.letters, o, func(l *letter, o Order) int { return l.Order.Compare(o) })
	return i
}

func (x *Index) remove(l *letter) {
	if l.state == unmet {
		x.unmet--
	}
	if l.Blocked {
		x.blocked--
	}
	delete(x.letters, l.ID)
	x.resize()
	if k := l.key; k != nil {
		i := k.find(l.Order)
		for k.letters[i] != l {
			i++
		}
		if i > 0 {
			k.letters = slices.Delete(k.letters, i, i+1)
		} else { // as nearly always, and a key may have very many
			k.letters[0], k.letters = nil, k.letters[1:]
		}
		if len(k.letters) == 0 {
			delete(x.held, k.name)
		}
	} else {
		delete(x.keyless, l.ID)
	}
}

// Stored says that a letter's records are acknowledged, or that it was being resolved and was not tried.
func (x *Index) Stored(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if l := x.letters[id]; l != nil {
		x.to(l, stored)
	}
}

// Found notes the offset of a letter's record in its partition; 0: it is not known any more. A search may end after the letter was
// written again behind.
func (x *Index) Found(id string, offset int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if l := x.letters[id]; l != nil && (offset == 0 || offset > l.Offset) {
		l.Offset = offset
	}
}

// Pass makes letters resolvable whose row no longer comes: the position has passed it.
func (x *Index) Pass(passed func(place string) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.unmet == 0 {
		return
	}
	for _, l := range x.letters {
		if l.state == unmet && passed(l.place) {
			x.to(l, stored)
		}
	}
}

// Begin says that a stored letter is being published, and reports false if it is not stored, or not before those of its key that do not
// leave. With drop it says that a letter is dropped, wherever it stands and also if its row may come again, and reports false if it is
// being written.
func (x *Index) Begin(id string, drop bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.letters[id]
	if l == nil || l.state != stored && (!drop || l.state != unmet) {
		return false
	}
	if drop {
		x.to(l, dropping)
		x.dropped[id] = l.Partition // from now on: its row may come at any time
		x.resize()
		return true
	}
	if k := l.key; k != nil {
		i := slices.IndexFunc(k.letters, func(l *letter) bool { return !l.state.leaves() })
		if k.letters[i] != l {
			return false
		}
	}
	x.to(l, resolving)
	return true
}

// Failed says that a letter that was being resolved stays. reason is why.
func (x *Index) Failed(id, reason string, tried time.Time, attempts int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.letters[id]
	if l.Blocked {
		x.blocked--
	}
	x.to(l, stored)
	l.Blocked, l.Tried, l.Attempts = reason != Held, tried, attempts
	if l.Blocked {
		x.blocked++
	}
}

// Resolved says that a letter was published or dropped.
func (x *Index) Resolved(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(x.letters[id])
}
