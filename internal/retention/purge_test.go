package retention

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
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

func (r *rows) Old(_ context.Context, _ time.Duration, limit int) ([]any, cdc.Position, error) {
	return make([]any, min(r.n, limit)), "", nil
}

func (r *rows) Passed(context.Context, cdc.Position) (bool, error) { return r.passed(), nil }

func (r *rows) Delete(_ context.Context, keys []any, _ time.Duration) (int64, error) {
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
