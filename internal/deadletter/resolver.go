package deadletter

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// ResolverOptions configure a [Resolver].
type ResolverOptions struct {
	Kafka kafka.Options
	// Topic holds the letters, Index says which there are.
	Topic, Index string
	// Due is the publisher's, too.
	Due Due
	// RetryAfter is the pause before the first automatic attempt, which doubles with each; 0: there are none. MaxAttempts is how
	// many attempts there are.
	RetryAfter  time.Duration
	MaxAttempts int
	// Passed reports whether a position is behind a place.
	Passed func(p cdc.Progress, place string) bool
	// Stored returns the position that a start would have, where that is not the one which was saved last; it may be nil.
	Stored func(ctx context.Context) (cdc.Progress, error)
}

// Due tells the resolver that letters may be due. The publisher and the resolver get the same one.
type Due chan struct{}

// NewDue returns a [Due]. It has room for one notice, which says as much as several.
func NewDue() Due { return make(Due, 1) }

// Notify says that letters may be due. It does not block.
func (d Due) Notify() {
	select {
	case d <- struct{}{}:
	default:
	}
}

// Sink is what publishes: the publisher.
type Sink interface {
	LoadLetters(ctx context.Context, id cdc.Source, passed func(place string) bool) (*Loaded, error)
	Resolve(ctx context.Context, letters []Resolution) ([]Outcome, error)
	WriteIndex(ctx context.Context, values map[string][]byte) error
	Forget(ctx context.Context, letters map[string]int32) error
	CloseKeys(ctx context.Context, names []string) error
	OpenKeys(ctx context.Context, names []string) error
	Accepted() uint64
}

// Loaded is what a start has read of the letters.
type Loaded struct {
	Index *Index
	// Barrier is the offset behind which asks count. Accepted are those before it that go on, by ID.
	Barrier  int64
	Accepted map[string]*Ask
}

// Router makes records; it is not used for anything else.
type Router interface {
	Route(b *cdc.Batch, dst *cdc.Routed) error
}

// source is what letters are read from: a [kafka.Client].
type source interface {
	Read(ctx context.Context, topic string, partition int32, from, end int64, fn func(*kafka.Record) error) error
	OffsetAt(ctx context.Context, topic string, partition int32, at time.Time) (int64, error)
	Leaderless(ctx context.Context, topics []string) (map[string]int32, error)
	Close()
}

// Resolver resolves letters: Load, then Run, for each attempt of the relay.
type Resolver struct {
	opts   ResolverOptions
	sink   Sink
	router Router
	log    *slog.Logger
	open   func() source
	round  int                   // the most letters of one
	tables map[string]*cdc.Table // schemas of rows
	loaded atomic.Pointer[Index] // index, for metrics and status

	index   *Index
	barrier int64
	asks    asks
	asked   chan ask
	done    map[string]int32 // letters that are resolved and not yet removed, with their partition
	// lost are letters without a record, and until when they are not looked for again, unless somebody asks. Each is logged once.
	lost map[string]time.Time
	// scanned is up to where each partition of the topic of letters was read for records whose offset is not known.
	scanned map[int32]int64
	// later are letters whose topic has no leader.
	later map[string]postponed
}

// postponed is why and until when a letter is not tried.
type postponed struct {
	until time.Time
	why   string
}

// NewResolver returns a resolver. It connects to nothing.
func NewResolver(opts ResolverOptions, sink Sink, router Router, log *slog.Logger) *Resolver {
	return &Resolver{
		opts: opts, sink: sink, router: router, log: log, round: roundLetters,
		open: func() source { return kafka.NewClient(opts.Kafka) }, tables: map[string]*cdc.Table{},
	}
}

// Load reads what letters there are. The sink must be open, and have accepted nothing yet.
func (r *Resolver) Load(ctx context.Context, id cdc.Source, from cdc.Progress) error {
	loaded, err := r.sink.LoadLetters(ctx, id, func(place string) bool { return r.opts.Passed(from, place) })
	if err != nil {
		return err
	}
	r.index, r.barrier, r.asks, r.asked = loaded.Index, loaded.Barrier, asks{}, make(chan ask)
	r.done = map[string]int32{}
	for id, a := range loaded.Accepted {
		r.asks[id] = a.pending()
		r.asks[id].accepted = true
	}
	r.lost, r.scanned, r.later = map[string]time.Time{}, map[int32]int64{}, map[string]postponed{}
	r.loaded.Store(loaded.Index)
	r.opts.Due.Notify()
	return nil
}

// Events returns the events of a table that have letters. Load precedes it.
func (r *Resolver) Events(table string) Events { return r.loaded.Load().Events(table) }

// Stuck reports whether the sink accepts nothing behind the batch last, because there may be no more letters.
func (r *Resolver) Stuck() (last uint64, stuck bool) {
	x := r.loaded.Load()
	if x == nil || !x.Full() {
		return 0, false
	}
	return r.sink.Accepted(), true
}

// interval is how often letters are looked at although nothing is known to have happened: their time may have come.
const interval = time.Second

// askPause is longer than the time between two asks of one command.
const askPause = 50 * time.Millisecond

// Run resolves letters until ctx ends, or nobody could ask for it any more. saved returns the position that was saved last.
func (r *Resolver) Run(ctx context.Context, saved func() cdc.Progress) error {
	followed := make(chan error, 1)
	go func() { followed <- r.follow(ctx, r.barrier, r.asked) }()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for more := false; ; {
		if more {
			r.opts.Due.Notify()
		}
		select {
		case a := <-r.asked:
			r.asks.take(a)
			r.takeMore()
		case <-r.opts.Due:
		case <-tick.C:
		case err := <-followed: // nil when ctx ends
			return err
		}
		var err error
		if more, err = r.step(ctx, saved()); err != nil && ctx.Err() == nil {
			r.log.Warn("dead letters not resolved, retrying", cdc.Repeats(), slog.Any("error", err))
		}
	}
}

// takeMore takes the asks that come with the first one, so that the letters of all are found in one scan.
func (r *Resolver) takeMore() {
	for {
		select {
		case a := <-r.asked:
			r.asks.take(a)
		case <-time.After(askPause):
			return
		}
	}
}

// step does a round of what can be done now, and reports whether there may be more. Between rounds commands are heard and answered: a
// key may get letters as fast as they are published.
func (r *Resolver) step(ctx context.Context, saved cdc.Progress) (more bool, err error) {
	passed := func(place string) bool { return r.opts.Passed(saved, place) }
	r.index.Pass(passed)
	r.asks.accept(r.index)
	if err := r.answer(ctx, Accepted); err != nil {
		return false, err
	}
	dropped, err := r.drop(ctx)
	if err != nil {
		return false, err
	}
	tried, err := r.retry(ctx)
	r.asks.review(r.index, r.wanted, r.postponed)
	if err == nil {
		err = r.forget(ctx, saved)
	}
	return err == nil && (dropped || tried), errors.Join(err, r.answer(ctx, Ended))
}

// forget removes what was dropped, once the position that a start would have is behind its row: until then the entry is what keeps a
// row that comes again from being published.
func (r *Resolver) forget(ctx context.Context, saved cdc.Progress) (err error) {
	if !r.index.Any() {
		return nil
	}
	if len(r.index.Gone(1, func(place string) bool { return r.opts.Passed(saved, place) })) == 0 {
		return nil
	}
	if r.opts.Stored != nil {
		if saved, err = r.opts.Stored(ctx); err != nil {
			return err
		}
	}
	gone := r.index.Gone(r.round, func(place string) bool { return r.opts.Passed(saved, place) })
	if err := r.sink.Forget(ctx, gone); err != nil {
		return err
	}
	r.index.Forget(gone)
	if len(gone) == r.round {
		r.opts.Due.Notify()
	}
	return nil
}

// wanted reports whether a letter is to be published now, unless an earlier one of its key is not.
func (r *Resolver) wanted(w *Work) bool {
	switch {
	case r.asks.want(Drop, w.ID), r.postponed(w.ID) != "":
		return false
	case time.Now().Before(r.lost[w.ID]):
		return r.asks.want(Retry, w.ID)
	}
	return !w.Blocked || r.asks.want(Retry, w.ID) || r.due(w.Tried, w.Attempts)
}

// postponed returns why a letter is not to be tried yet, or "".
func (r *Resolver) postponed(id string) string {
	p, ok := r.later[id]
	if ok && time.Now().After(p.until) {
		delete(r.later, id)
		return ""
	}
	return p.why
}

// due reports whether a blocked letter is to be tried without anybody asking.
func (r *Resolver) due(tried time.Time, attempts int) bool {
	const longest = time.Hour
	if r.opts.RetryAfter == 0 || attempts >= r.opts.MaxAttempts {
		return false
	}
	pause := longest
	if attempts < 32 {
		pause = min(r.opts.RetryAfter<<attempts, longest)
	}
	if pause <= 0 {
		pause = longest
	}
	since := time.Since(tried)
	return since >= pause || since < 0 // the clock went back
}
