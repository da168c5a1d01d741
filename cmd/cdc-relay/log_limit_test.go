package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns what was written since the last take, without times.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return strings.TrimSpace(l.text.String())
}

func newLogger() (*slog.Logger, *limiter, *lines) {
	out := new(lines)
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	limits := limitRepeats(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	return slog.New(limits), limits, out
}

func want(t *testing.T, out *lines, text ...string) {
	t.Helper()
	if got := out.take(); got != strings.Join(text, "\n") {
		t.Errorf("logged:\n%s\nwant:\n%s", got, strings.Join(text, "\n"))
	}
}

func TestRepeatedLinesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _, out := newLogger()
		delayed := func(cause string) {
			log.Warn("delayed", cdc.Repeats(), slog.String("topic", "orders"), slog.Any("error", errors.New(cause)))
		}
		for _, cause := range []string{"a", "b", "c"} {
			delayed(cause)
		}
		want(t, out, "level=WARN msg=delayed topic=orders error=a")
		<-time.After(10 * time.Second)
		synctest.Wait()
		want(t, out, `level=WARN msg="repeated lines left out" line=delayed left_out=2 topic=orders error=c`)
		delayed("d")
		delayed("e")
		want(t, out, "")
		<-time.After(50 * time.Second)
		synctest.Wait()
		want(t, out, `level=WARN msg="repeated lines left out" line=delayed left_out=2 topic=orders error=e`)
		<-time.After(4*time.Minute + time.Second)
		delayed("f")
		want(t, out, "level=WARN msg=delayed topic=orders error=f")
	})
}

// Lines without the mark are all written, and a mark is not shown.
func TestOtherLinesAreNotLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _, out := newLogger()
		for range 2 {
			log.Warn("dropped", "topic", "orders")
		}
		want(t, out, "level=WARN msg=dropped topic=orders", "level=WARN msg=dropped topic=orders")
		log.Warn("dropped", cdc.Repeats(), slog.String("reason", "skip"))
		log.Warn("dropped", cdc.Repeats(), slog.String("reason", "unroutable"))
		want(t, out, "level=WARN msg=dropped reason=skip", "level=WARN msg=dropped reason=unroutable")
	})
}

// The end of the process does not hide what was counted, and loggers with attributes share their limits.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, limiter, out := newLogger()
		for _, id := range []string{"1", "2"} {
			log.With("a", 1).Warn("dropped", cdc.Repeats(), cdc.EventAttr(id, []byte("k"), "orders"))
		}
		limiter.flush()
		limiter.flush()
		want(t, out, "level=WARN msg=dropped a=1 event_id=1 key=k topic=orders",
			`level=WARN msg="repeated lines left out" a=1 line=dropped left_out=1 event_id=2 key=k topic=orders`)
	})
}

// What is not known of an event is left out, and what is long is shortened.
func TestEventAttr(t *testing.T) {
	log, _, out := newLogger()
	log.Info("a", cdc.EventAttr("1", nil, ""))
	log.Info("b", cdc.EventAttr("", []byte(strings.Repeat("x", 300)), "t"))
	log.Info("c", cdc.EventAttr(strings.Repeat("x", 300), nil, "t"))
	want(t, out, "level=INFO msg=a event_id=1",
		"level=INFO msg=b key=sha256:0d4e2ca9e9cbced7a7a5380eb29e1a3783b9b6d0db72de36a1051038e1c1fbc7 topic=t",
		"level=INFO msg=c event_id=sha256:0d4e2ca9e9cbced7a7a5380eb29e1a3783b9b6d0db72de36a1051038e1c1fbc7 topic=t")
}
