package wal

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// horizon says that each transaction with an ID below xmin has ended before a place in the WAL: its rows are published, or never
// will be, once the position has passed that place. So a row whose xmin is not below it is all that repair has to read.
//
// An ID has 64 bits, the upper ones of which are the epoch. 0: nothing is known. A transaction that is open, or prepared, holds the
// horizon back, and its subtransactions have higher IDs than it has.
type horizon struct {
	xmin uint64
	at   lsn
}

// endedNow reads a horizon. The statement's snapshot is taken before its functions are called, and a transaction writes its commit
// to the WAL before a snapshot can miss it: so the WAL's end is behind the commits of all that the snapshot does not count as open.
// On a standby the snapshot is ahead of the position that the server tells.
const endedNow = `pg_snapshot_xmin(pg_current_snapshot())::text, coalesce(CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() END, '0/0')::text`

func parseHorizon(xmin, at string) (h horizon, err error) {
	var place lsn
	if err = place.Scan(at); err != nil || place == 0 {
		return horizon{}, err
	}
	if h.xmin, err = parseXMin(xmin); err != nil {
		return horizon{}, err
	}
	h.at = place
	return h, nil
}

func parseXMin(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	xmin, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("xmin %q is no number", text)
	}
	return xmin, nil
}

// maxHorizons limits how many are kept while the position stands still.
const maxHorizons = 512

// horizons keeps those that a position may pass. Safe for concurrent use: the looks add, the relay reads.
type horizons struct {
	mu   sync.Mutex
	list []horizon // in order
	// next waits for another look that finds the publication unchanged: what a table misses while it is out of the publication must
	// not be below the horizon.
	next horizon
}

// start forgets all but what a checkpoint says of its position: the server may be another one now.
func (h *horizons) start(c horizon) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list, h.next = append(h.list[:0], c), horizon{}
}

func (h *horizons) propose(next horizon) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = next
}

func (h *horizons) accept() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.list); h.next.xmin == 0 || n > 0 && h.next.xmin <= h.list[n-1].xmin { // at an earlier place it is worth more
		return
	}
	if len(h.list) == maxHorizons {
		for i := range maxHorizons / 2 {
			h.list[i] = h.list[2*i]
		}
		h.list = h.list[:maxHorizons/2]
	}
	h.list = append(h.list, h.next)
}

// before returns the last one that a position has passed, as text; "" for none.
func (h *horizons) before(position lsn) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, each := range slices.Backward(h.list) {
		if each.at <= position && each.xmin > 0 {
			return strconv.FormatUint(each.xmin, 10)
		}
	}
	return ""
}

// forget drops those before the last one that a position has passed.
func (h *horizons) forget(position lsn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	passed := 0
	for passed+1 < len(h.list) && h.list[passed+1].at <= position {
		passed++
	}
	h.list = slices.Delete(h.list, 0, passed)
}
