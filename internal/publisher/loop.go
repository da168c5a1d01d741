package publisher

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/IBM/sarama"
	"github.com/cenkalti/backoff/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

var errMoved = errors.New("the broker has another address now")

// loop owns everything that sending needs to know. Only its own goroutine touches it.
type loop struct {
	opts    *Options
	codec   sarama.CompressionCodec
	log     *slog.Logger
	metrics *metrics
	mail    *mailbox
	in      <-chan *cdc.Routed
	out     chan<- cdc.Durable
	jobs    chan<- job
	spawn   func(s *sender)

	now      time.Time // of this turn
	timer    *time.Timer
	wake     time.Time // when the next turn is due; zero: when something happens
	armed    time.Time // what the timer is set to
	spare    []event
	window   window
	slabs    slabs
	buffered int // bytes of entries that are in no batch
	topics   map[string]*topic
	links    []*link
	waiting  []*partition
	producer producer
	// transactional is the id that fences; "" for none.
	transactional string

	// One question to the cluster is out at a time: a producer id, or the metadata of wanted topics.
	asking     bool
	askAt      time.Time
	askBackoff *backoff.ExponentialBackOff
	wanted     []*topic
	renewing   bool // no batch leaves until there is a new producer id
	fenced     bool // another publisher has taken over
	unsure     bool // a question for a producer id may have been granted although its answer did not come
	renewAt    time.Time
	flights    int // requests that are with senders
	flying     int // batches in them
	refreshAt  time.Time

	failure *failure
	horizon uint64 // batches from this one on are not sent

	outage outage
}

func (l *loop) run(ctx context.Context) {
	l.timer = time.NewTimer(time.Hour)
	defer l.timer.Stop()
	l.now = l.opts.Now()
	l.refreshAt, l.renewAt = l.now.Add(l.opts.MetadataInterval), l.now.Add(l.opts.RenewInterval)
	for l.wait(ctx) {
		l.spare = l.mail.take(l.spare)
		for _, e := range l.spare {
			e.apply(l)
		}
		l.turn()
	}
}

// wait returns when something has happened, and false when the publisher is killed.
func (l *loop) wait(ctx context.Context) bool {
	in, out, next := l.ports()
	l.setTimer()
	select {
	case <-ctx.Done():
		return false
	case r := <-in:
		l.now = l.opts.Now()
		l.accept(r)
		l.acceptMore(in)
	case out <- next:
		l.window.answers.pop()
		l.now = l.opts.Now()
	case <-l.mail.wake:
		l.now = l.opts.Now()
	case <-l.timer.C:
		l.armed = time.Time{}
		l.now = l.opts.Now()
	}
	return true
}

// ports are the channels that this turn may use: nothing is taken in while enough is buffered, or after a
// failure, and nothing is handed out while there is nothing.
func (l *loop) ports() (in <-chan *cdc.Routed, out chan<- cdc.Durable, next cdc.Durable) {
	if l.roomy() {
		in = l.in
	}
	if l.window.answers.len() > 0 {
		out, next = l.out, *l.window.answers.at(0)
	}
	return in, out, next
}

func (l *loop) roomy() bool { return l.buffered < l.room() && l.failure == nil }

// perPartition is what may wait for each partition that has messages. A batch costs a broker as much as some ten of its
// records, so those of many partitions must not be cut from what would do for a few.
const perPartition = 4 << 10

// room is how many bytes of messages may wait. The relay's window bounds it too: nothing waits that is not in there.
func (l *loop) room() int {
	busy := l.flying
	for _, k := range l.links {
		busy += k.list.len()
	}
	return l.opts.MaxBuffered + busy*perPartition
}

// acceptMore takes what is there already, so that it shares requests.
func (l *loop) acceptMore(in <-chan *cdc.Routed) {
	for l.roomy() {
		select {
		case r := <-in:
			l.accept(r)
		default:
			return
		}
	}
}

// turn does what has become due and sends what has become possible.
func (l *loop) turn() {
	l.wake = time.Time{}
	l.retryDue()
	l.refresh()
	l.ask()
	if !l.renewing {
		for _, k := range l.links {
			l.pump(k, l.now)
		}
	}
	l.confess()
}

// retryDue moves partitions whose pause is over back to where they can be sent.
func (l *loop) retryDue() {
	still := l.waiting[:0]
	for _, p := range l.waiting {
		switch {
		case p.state != waiting:
		case p.retryAt.After(l.now):
			l.wakeAt(p.retryAt)
			still = append(still, p)
		default:
			p.state = idle
			l.enlist(p)
		}
	}
	clear(l.waiting[len(still):])
	l.waiting = still
}

// refresh reads partition counts and limits again from time to time.
func (l *loop) refresh() {
	if l.now.Before(l.refreshAt) {
		l.wakeAt(l.refreshAt)
		return
	}
	l.refreshAt = l.now.Add(l.opts.MetadataInterval)
	for _, tp := range l.topics {
		tp.stale = true
		l.wantMetadata(tp)
	}
}

// wakeAt makes the next turn happen at t at the latest.
func (l *loop) wakeAt(t time.Time) {
	if l.wake.IsZero() || t.Before(l.wake) {
		l.wake = t
	}
}

func (l *loop) setTimer() {
	if l.wake.IsZero() || l.armed.After(l.now) && !l.wake.Before(l.armed) {
		return // a turn too early does no harm
	}
	l.armed = l.wake
	l.timer.Reset(max(0, l.wake.Sub(l.now)))
}

func (l *loop) newBackoff() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: l.opts.RetryInitial, MaxInterval: l.opts.RetryMax,
		Multiplier: 2, RandomizationFactor: 0.5,
	}
}

// after is the end of b's next pause: its jitter makes none longer than the longest.
func (l *loop) after(b *backoff.ExponentialBackOff) time.Time {
	return l.now.Add(min(b.NextBackOff(), b.MaxInterval))
}

const noHorizon = math.MaxUint64
