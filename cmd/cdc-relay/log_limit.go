package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// maxAlike is how many lines with the same message differ by topic, which a row may choose; beyond it all topics share one.
const maxAlike = 3

// limiter is a handler that writes the first of lines with the mark [cdc.Repeats], and at the times of [cdc.LogAgain] how many others there
// were; and all other lines.
type limiter struct {
	slog.Handler

	bursts *bursts
}

// limitRepeats returns a handler that writes to h.
func limitRepeats(h slog.Handler) *limiter {
	return &limiter{h, &bursts{open: map[logLine]*burst{}}}
}

// Handle writes the record, or counts it.
func (l *limiter) Handle(ctx context.Context, r slog.Record) error {
	if which, repeats := identify(r); repeats && l.bursts.repeated(which, r, l.Handler) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler with the same limits.
func (l *limiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limiter{l.Handler.WithAttrs(attrs), l.bursts}
}

// WithGroup returns a handler with the same limits.
func (l *limiter) WithGroup(name string) slog.Handler {
	return &limiter{l.Handler.WithGroup(name), l.bursts}
}

// flush writes what was counted so far.
func (l *limiter) flush() {
	for _, which := range l.bursts.lines() {
		l.bursts.tell(which)
	}
}

// logLine is what lines that repeat have in common.
type logLine struct{ message, table, topic, reason string }

// identify returns the record's line, and whether it has the mark.
func identify(r slog.Record) (which logLine, repeats bool) {
	which.message = r.Message
	var see func(a slog.Attr) bool
	see = func(a slog.Attr) bool {
		switch {
		case cdc.IsRepeats(a):
			repeats = true
		case a.Key == "table":
			which.table = a.Value.String()
		case a.Key == "topic":
			which.topic = a.Value.String()
		case a.Key == "reason":
			which.reason = a.Value.String()
		case a.Key == "" && a.Value.Kind() == slog.KindGroup:
			for _, member := range a.Value.Group() {
				see(member)
			}
		}
		return true
	}
	r.Attrs(see)
	return which, repeats
}

// bursts are the lines that repeat.
type bursts struct {
	mu   sync.Mutex
	open map[logLine]*burst
}

type burst struct {
	handler slog.Handler
	timer   *time.Timer
	told    int         // how often
	more    int         // since then
	last    slog.Record // of those that were left out
}

// repeated reports whether a logLine is left out, and counts it.
func (b *bursts) repeated(which logLine, r slog.Record, h slog.Handler) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	alike := 0
	for open := range b.open {
		if open.message == which.message {
			alike++
		}
	}
	if b.open[which] == nil && alike >= maxAlike {
		which.topic = ""
	}
	if same := b.open[which]; same != nil {
		same.more++
		same.last = r.Clone()
		return true
	}
	b.open[which] = &burst{handler: h, told: 1, timer: time.AfterFunc(cdc.LogAgain(1), func() { b.tell(which) })}
	return false
}

func (b *bursts) lines() []logLine {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.open))
}

// tell writes how many lines were left out, with the attributes of the last one. Without one the burst is over.
func (b *bursts) tell(which logLine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	burst := b.open[which]
	if burst == nil || burst.more == 0 {
		delete(b.open, which)
		return
	}
	burst.timer.Reset(cdc.LogAgain(burst.told+1) - cdc.LogAgain(burst.told))
	r := slog.NewRecord(time.Now(), burst.last.Level, "repeated lines left out", 0)
	r.AddAttrs(slog.String("line", which.message), slog.Int("left_out", burst.more))
	burst.last.Attrs(func(a slog.Attr) bool {
		r.AddAttrs(a)
		return true
	})
	burst.told, burst.more = burst.told+1, 0
	_ = burst.handler.Handle(context.Background(), r) // as slog does
}
