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

// rows are the keys 1..n; passed tells when the relay has passed what was found.
type rows struct {
	n       int
	passed  func() bool
	deletes []int // the sizes of the batches
	refuses func() bool
}

func (r *rows) Name() string { return "public.events" }

func (r *rows) Verify(context.Context) error {
	if r.refuses != nil && r.refuses() {
		return errors.New("no right")
	}
	return nil
}

func (r *rows) Count(context.Context, time.Duration, int) (int, error) {
	return r.n, nil
}

func (r *rows) Keyless(context.Context, time.Duration) error { return nil }

func (r *rows) Old(_ context.Context, _ time.Duration, limit int) ([]cdc.RowKey, cdc.Position, error) {
	return make([]cdc.RowKey, min(r.n, limit)), "", nil
}

func (r *rows) OldAfter(context.Context, time.Duration, int, any) ([]cdc.RowKey, cdc.Position, error) {
	return nil, "", errors.New("nothing is held")
}

func (r *rows) Passed(context.Context, cdc.Position) (bool, error) { return r.passed(), nil }

func (r *rows) Delete(_ context.Context, keys []cdc.RowKey, _ time.Duration) (int64, error) {
	if !r.passed() {
		return 0, errors.New("deleted before it was relayed")
	}
	r.n -= len(keys)
	r.deletes = append(r.deletes, len(keys))
	return int64(len(keys)), nil
}

func (r *rows) purger(o PurgeOptions, log *slog.Logger) *Purger {
	open := func(context.Context) ([]Rows, func(), error) { return []Rows{r}, func() {}, nil }
	return NewPurger(o, open, log, prometheus.NewRegistry())
}

// Rows are deleted in batches, with a pause after each, and the pass goes on until none is old.
func TestPurgeInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rows{n: 2*rounds*10 + 25, passed: func() bool { return true }}
		p := r.purger(PurgeOptions{Batch: 10, Pause: time.Second}, slog.New(slog.DiscardHandler))
		since := time.Now()
		if err := p.Purge(t.Context()); err != nil || r.n != 0 {
			t.Errorf("%d are left: %v", r.n, err)
		}
		if want := time.Duration(len(r.deletes)) * time.Second; time.Since(since) != want || len(r.deletes) != 2*rounds+3 {
			t.Errorf("%d batches in %s", len(r.deletes), time.Since(since))
		}
		if n := testutil.ToFloat64(p.deleted.WithLabelValues("public.events")); n != 2*rounds*10+25 {
			t.Errorf("%v are counted", n)
		}
	})
}

// Rows wait for the relay's position: for ever while it runs, for a while in a command.
func TestPurgeWaitsForThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passes := time.Now().Add(time.Hour)
		r := &rows{n: 3, passed: func() bool { return time.Now().After(passes) }}
		err := r.purger(PurgeOptions{Batch: 10, Patience: time.Minute}, slog.New(slog.DiscardHandler)).Purge(t.Context())
		if err == nil || !strings.Contains(cdc.Explain(err), "start the relay") || r.n != 3 {
			t.Errorf("a command: %d, %v", r.n, err)
		}
		var log bytes.Buffer
		err = r.purger(PurgeOptions{Batch: 10}, slog.New(slog.NewTextHandler(&log, nil))).Purge(t.Context())
		if err != nil || r.n != 0 || strings.Count(log.String(), "not deleted yet") != 1 {
			t.Errorf("the relay: %d, %v; %s", r.n, err, &log)
		}
	})
}

// keptRows are rows of which the database keeps some: it refuses a batch that has one, or, with quietly, leaves it out.
type keptRows struct {
	rows

	keys    []int // in order
	kept    func(key int) bool
	quietly bool
	calls   int
	tried   int // rows of all calls
}

func (r *keptRows) Old(ctx context.Context, age time.Duration, limit int) ([]cdc.RowKey, cdc.Position, error) {
	return r.OldAfter(ctx, age, limit, nil)
}

func (r *keptRows) OldAfter(_ context.Context, _ time.Duration, limit int, after any) (keys []cdc.RowKey, _ cdc.Position, _ error) {
	for _, key := range r.keys {
		if (after == nil || key > after.(int)) && len(keys) < limit {
			keys = append(keys, cdc.RowKey{ID: fmt.Sprint(key), Value: key})
		}
	}
	return keys, "", nil
}

func (r *keptRows) Passed(context.Context, cdc.Position) (bool, error) { return true, nil }

func (r *keptRows) Delete(_ context.Context, keys []cdc.RowKey, _ time.Duration) (n int64, err error) {
	r.calls++
	r.tried += len(keys)
	if slices.ContainsFunc(keys, func(k cdc.RowKey) bool { return r.kept(k.Value.(int)) }) {
		err = cdc.Fixable("change the trigger", "%w: trigger", cdc.ErrHeld)
		if !r.quietly {
			return 0, err
		}
	}
	before := len(r.keys)
	r.keys = slices.DeleteFunc(r.keys, func(key int) bool {
		return !r.kept(key) && slices.ContainsFunc(keys, func(k cdc.RowKey) bool { return k.Value == key })
	})
	return int64(before - len(r.keys)), err
}

// Rows that the database keeps do not keep others: the rest goes in one pass, which tries each row a few times at most, and says how
// many are kept.
func TestPurgeLeavesOnlyWhatTheDatabaseKeeps(t *testing.T) {
	const all = 3 * rounds * 10
	for title, kept := range map[string]func(int) bool{
		"the first":    func(key int) bool { return key == 0 },
		"the last":     func(key int) bool { return key == all-1 },
		"some":         func(key int) bool { return key%97 == 5 },
		"every second": func(key int) bool { return key%2 == 0 },
		"a read":       func(key int) bool { return key < rounds*10 },
		"all":          func(int) bool { return true },
	} {
		for _, quietly := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r := &keptRows{kept: kept, quietly: quietly}
				want := 0
				for key := range all {
					r.keys = append(r.keys, key)
					if kept(key) {
						want++
					}
				}
				open := func(context.Context) ([]Rows, func(), error) { return []Rows{r}, func() {}, nil }
				err := NewPurger(PurgeOptions{Batch: 10, Pause: time.Second}, open, slog.New(slog.DiscardHandler), prometheus.NewRegistry()).Purge(t.Context())
				if len(r.keys) != want || err == nil || !strings.Contains(err.Error(), fmt.Sprintf("not deleted: %d, among them", want)) || cdc.Fix(err) == "" {
					t.Errorf("%s, quietly %t: %d are left, want %d: %v", title, quietly, len(r.keys), want, err)
				}
				if r.calls > 3*all || r.tried > 5*all {
					t.Errorf("%s, quietly %t: %d calls with %d rows for %d", title, quietly, r.calls, r.tried, all)
				}
			})
		}
	}
}

// The loop goes on after an error, counts it, and ends with its context also while it waits.
func TestPurgeLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(90 * time.Minute)
		r := &rows{n: 3, passed: func() bool { return false }, refuses: func() bool { return time.Now().Before(until) }}
		p := r.purger(PurgeOptions{Batch: 10, Every: time.Hour}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.Run(ctx) }()
		<-time.After(3 * time.Hour)
		cancel()
		<-done
		if n := testutil.ToFloat64(p.errors); n != 2 || r.n != 3 {
			t.Errorf("%v errors, %d rows", n, r.n)
		}
	})
}
