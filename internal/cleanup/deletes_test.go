package cleanup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// old are rows that are old, of which the database keeps some.
type old struct {
	cdc.RowAction

	keys    []int // in order
	passed  func() bool
	refuses func() bool
	kept    func(key int) bool
	fails   error // every batch
	reads   int
	never   cdc.Position // the position that is never passed, of the read with that number
	unknown int          // keys from this one on are those of no row; 0: none
	deletes []int        // the sizes of batches that went
	calls   int
	tried   int           // rows of all calls
	asked   int           // calls of Passed
	takes   time.Duration // a read
}

func oldRows(n int) *old {
	o := &old{RowAction: cdc.RowAction{Table: "public.events"}, passed: func() bool { return true }, refuses: func() bool { return false }, kept: func(int) bool { return false }}
	for key := range n {
		o.keys = append(o.keys, key)
	}
	return o
}

func (o *old) Verify(context.Context) error {
	if o.refuses() {
		return errors.New("no right")
	}
	return nil
}

func (o *old) Due(_ context.Context, limit int) (keys []cdc.RowKey, _ cdc.Position, _ error) {
	for _, key := range o.keys[:min(limit, len(o.keys))] {
		keys = append(keys, cdc.RowKey{ID: fmt.Sprint(key), Value: key})
	}
	o.reads++
	<-time.After(o.takes)
	return keys, cdc.Position(fmt.Sprint(o.reads)), nil
}

func (o *old) Passed(_ context.Context, behind cdc.Position) (bool, error) {
	o.asked++
	return behind != o.never && o.passed(), nil
}

func (o *old) Act(_ context.Context, keys []cdc.RowKey, _ bool) (int, error) {
	o.calls++
	o.tried += len(keys)
	if !o.passed() {
		return 0, errors.New("deleted before it was relayed")
	}
	if o.fails != nil {
		return 0, o.fails
	}
	if slices.ContainsFunc(keys, func(k cdc.RowKey) bool { return o.kept(k.Value.(int)) }) {
		return 0, cdc.Fixable("change the trigger", "%w: trigger", cdc.ErrHeld)
	}
	had := len(o.keys)
	o.keys = slices.DeleteFunc(o.keys, func(key int) bool {
		return (o.unknown == 0 || key < o.unknown) && slices.ContainsFunc(keys, func(k cdc.RowKey) bool { return k.Value == key })
	})
	o.deletes = append(o.deletes, len(keys))
	return had - len(o.keys), nil
}

func deletes(o DeleteOptions, log *slog.Logger, tables ...*old) *Sweeper {
	open := func(context.Context, cdc.Loader) (list []Rows, _ func(), _ error) {
		for _, t := range tables {
			list = append(list, t)
		}
		return list, func() {}, nil
	}
	return NewDeletes(o, open, log, prometheus.NewRegistry())
}

// Rows are deleted in batches, with a pause after each, and the pass goes on until none is old.
func TestOldRowsAreDeletedInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 2*batchesRead*10 + 20
		o := oldRows(all)
		s := deletes(DeleteOptions{Batch: 10}, slog.New(slog.DiscardHandler), o)
		s.pause = time.Second
		since := time.Now()
		if err := s.Once(t.Context()); err != nil || len(o.keys) != 0 {
			t.Errorf("%d are left: %v", len(o.keys), err)
		}
		if took := time.Since(since).Round(time.Second); took < (all/10-1)*time.Second || took > (all/10+3)*time.Second || len(o.deletes) != all/10 {
			t.Errorf("%d batches in %s", len(o.deletes), took)
		}
		if n := testutil.ToFloat64(s.counted.WithLabelValues(o.Table)); n != all {
			t.Errorf("%v are counted", n)
		}
	})
}

// Rows wait for the relay's position: for ever while it runs, for a while in a command. They are not deleted either while something else
// may need them.
func TestOldRowsWaitForThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passes := time.Now().Add(time.Hour)
		o := oldRows(3)
		o.passed = func() bool { return time.Now().After(passes) }
		err := deletes(DeleteOptions{Batch: 10, Patience: time.Minute}, slog.New(slog.DiscardHandler), o).Once(t.Context())
		if err == nil || !strings.Contains(cdc.Explain(err), "start the relay") || len(o.keys) != 3 || time.Until(passes) < 58*time.Minute {
			t.Errorf("a command: %d, %v", len(o.keys), err)
		}
		began, second := time.Now(), oldRows(2*batchesRead*10)
		second.never = "2"
		err = deletes(DeleteOptions{Batch: 10, Patience: 15 * time.Second}, slog.New(slog.DiscardHandler), second).Once(t.Context())
		if err == nil || time.Since(began) > 25*time.Second || len(second.keys) != batchesRead*10 {
			t.Errorf("a command waits for its second read for %s, %d are left: %v", time.Since(began), len(second.keys), err)
		}
		began, slow := time.Now(), oldRows(3)
		slow.takes, slow.passed = 20*time.Second, func() bool { return time.Since(began) > 25*time.Second }
		if err := deletes(DeleteOptions{Batch: 10, Patience: 15 * time.Second}, slog.New(slog.DiscardHandler), slow).Once(t.Context()); err != nil || len(slow.keys) != 0 {
			t.Errorf("a command whose read takes longer than its patience: %d are left: %v", len(slow.keys), err)
		}
		var log bytes.Buffer
		s := deletes(DeleteOptions{Batch: 10, Every: 24 * time.Hour}, slog.New(slog.NewTextHandler(&log, nil)), o)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		s.Run(ctx, nil)
		if len(o.keys) != 0 || !strings.Contains(log.String(), "old rows not deleted yet") {
			t.Errorf("the relay: %d; %s", len(o.keys), &log)
		}
		o = oldRows(3)
		kept := errors.New("letters need them")
		if err := deletes(DeleteOptions{Batch: 10, Kept: kept}, slog.New(slog.DiscardHandler), o).Once(t.Context()); !errors.Is(err, kept) || len(o.keys) != 3 {
			t.Errorf("kept: %d, %v", len(o.keys), err)
		}
	})
}

// A position that is never passed, as that of a transaction which was rolled back, holds up neither these rows nor those of another table.
func TestOldRowsAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, other := oldRows(3), oldRows(3)
		o.never, other.Table = "1", "public.other"
		began := time.Now()
		other.passed = func() bool { return time.Since(began) < 10*time.Second }
		if err := deletes(DeleteOptions{Batch: 10}, slog.New(slog.DiscardHandler), o, other).Once(t.Context()); err != nil || len(o.keys)+len(other.keys) > 0 {
			t.Errorf("%d and %d are left: %v", len(o.keys), len(other.keys), err)
		}
	})
}

// A pass ends although the database finds rows by a key that it does not find again, asks for a few where all fail, as once a right is gone,
// and steps over so many rows that the database keeps.
func TestPassOfRowsThatCannotBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, denied := oldRows(3*batchesRead), oldRows(5000)
		o.unknown, denied.fails = 5, errors.New("no right")
		if err := deletes(DeleteOptions{Batch: 1}, slog.New(slog.DiscardHandler), o).Once(t.Context()); err != nil || len(o.keys) != 3*batchesRead-5 {
			t.Errorf("%d are left: %v", len(o.keys), err)
		}
		err := deletes(DeleteOptions{Batch: 100}, slog.New(slog.DiscardHandler), denied).Once(t.Context())
		if !errors.Is(err, denied.fails) || denied.calls > maxFailures {
			t.Errorf("%d calls: %v", denied.calls, err)
		}
		kept := oldRows(maxRefused + 5)
		kept.kept = func(int) bool { return true }
		err = deletes(DeleteOptions{Batch: 1000}, slog.New(slog.DiscardHandler), kept).Once(t.Context())
		if err == nil || !strings.Contains(err.Error(), "100000 rows and those after them, that of event 0 among them") {
			t.Errorf("all are kept: %v", err)
		}
	})
}

// Rows that the database keeps do not keep others: the rest goes in one pass, which tries each row a few times at most, and says how
// many are kept.
func TestOnlyRowsThatTheDatabaseKeepsStay(t *testing.T) {
	const all = 3 * batchesRead * 10
	for title, kept := range map[string]func(int) bool{
		"the first":    func(key int) bool { return key == 0 },
		"the last":     func(key int) bool { return key == all-1 },
		"some":         func(key int) bool { return key%97 == 5 },
		"every second": func(key int) bool { return key%2 == 0 },
		"a read":       func(key int) bool { return key < batchesRead*10 },
		"all":          func(int) bool { return true },
	} {
		synctest.Test(t, func(t *testing.T) {
			o := oldRows(all)
			o.kept = kept
			want := 0
			for _, key := range o.keys {
				if kept(key) {
					want++
				}
			}
			err := deletes(DeleteOptions{Batch: 10}, slog.New(slog.DiscardHandler), o).Once(t.Context())
			if len(o.keys) != want || err == nil || !strings.Contains(err.Error(), fmt.Sprintf("old rows not deleted: %d row", want)) || cdc.Fix(err) == "" {
				t.Errorf("%s: %d are left, want %d: %v", title, len(o.keys), want, err)
			}
			if o.calls > 3*all || o.tried > 5*all || o.asked > 4*all/(batchesRead*10)+4 { // with exactly-once delivery Kafka is asked
				t.Errorf("%s: %d calls with %d rows for %d, the position is read %d times", title, o.calls, o.tried, all, o.asked)
			}
		})
	}
}

// The loop goes on after an error, counts it, and ends with its context also while it waits.
func TestLoopOfDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(90 * time.Minute)
		o := oldRows(3)
		o.passed, o.refuses = func() bool { return false }, func() bool { return time.Now().Before(until) }
		s := deletes(DeleteOptions{Batch: 10, Every: time.Hour}, slog.New(slog.DiscardHandler), o)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx, nil) }()
		<-time.After(3 * time.Hour)
		cancel()
		<-done
		if n := testutil.ToFloat64(s.errors); n != 2 || len(o.keys) != 3 {
			t.Errorf("%v errors, %d rows", n, len(o.keys))
		}
	})
}
