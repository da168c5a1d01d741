package admin

import (
	"context"
	"math"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const (
	// lookEvery is how often the state is looked at.
	lookEvery = time.Second
	// recentFor is how far rates and percentiles of the present go back at least. So a rate is 0 soon after nothing is published any more.
	recentFor = 5 * time.Second
	// topicsFor is how far those of topics go back, and topicsEvery the time between two states that are kept for that.
	topicsFor   = 15 * time.Minute
	topicsEvery = 5 * time.Minute
	// walFor is how far the speed of the WAL goes back, and walLeast how far at least.
	walFor, walLeast = 10 * time.Minute, 20 * time.Second
)

// recorder knows what the present state does not tell.
type recorder struct {
	o        *Options
	fleet    *fleet
	instance string // once the server listens

	mu        sync.Mutex
	history   history
	incidents incidents
	before    Verdict
	seen      *numbers             // the last ones; those of no time before the first look
	recent    []*numbers           // of the last two samples, the older first
	older     []*numbers           // for the topics
	moved     time.Time            // see situation
	lostIn    *float64             // as of the last look
	last      map[string]time.Time // when a topic's counter moved
	wal       []walEnd             // of the last samples
}

// walEnd is the end of the WAL at a time.
type walEnd struct {
	at  time.Time
	end uint64
}

func newRecorder(o *Options) *recorder {
	return &recorder{o: o, fleet: newFleet(o), seen: new(numbers), last: map[string]time.Time{}}
}

// listens notes the address of the server, by which others know this relay.
func (r *recorder) listens(addr net.Addr) {
	host, err := os.Hostname()
	if _, port, splitErr := net.SplitHostPort(addr.String()); err == nil && splitErr == nil {
		r.instance = net.JoinHostPort(host, port)
	}
}

// run looks until ctx ends.
func (r *recorder) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for due := (time.Time{}); ; {
		now := time.Now()
		if !now.Before(due) {
			due = now.Add(sampleEvery - lookEvery/2)
			r.sample(now)
		} else if st := r.status(now); len(st.problems("kafka"))+len(st.problems("database")) > 0 || !st.InFlight.Since.IsZero() && now.Sub(st.InFlight.Since) > settling {
			r.gather(now) // whether others are published
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Describe implements [prometheus.Collector]: what is collected is not known before.
func (r *recorder) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (r *recorder) Collect(ch chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	desc := prometheus.NewDesc("cdc_relay_time_to_loss_seconds", "Time until WAL or binlog is lost that is not published, at the speed of the last minutes; absent while nothing threatens it.", nil, nil)
	if r.lostIn != nil {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, *r.lostIn)
	}
}

// gather reads the metrics.
func (r *recorder) gather(now time.Time) *numbers {
	list, _ := r.o.Gatherer.Gather() // metrics of a failing collector are missing
	n := numbersOf(list, now)
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.seen
	if n.counters["events_published"] > was.counters["events_published"] {
		r.moved = was.at // or later
	}
	for name, c := range n.topics {
		if c.published > was.topics[name].published {
			r.last[name] = now
		}
	}
	r.seen = n
	return n
}

// status is the present one.
func (r *recorder) status(now time.Time) Status {
	st := r.o.Status()
	st.Ready, st.NotReady, st.Instance = true, "", r.instance
	if err := r.o.Ready(); err != nil {
		st.Ready, st.NotReady = false, cdc.Explain(err)
	}
	leader, _, gone := r.fleet.others(&st)
	r.mu.Lock()
	defer r.mu.Unlock()
	s := situation{Status: st, now: now, moved: r.moved, walPerSecond: r.walPerSecond(&st), leader: leader, gone: gone, before: r.before}
	if seconds, known := r.seen.all["binlog_expire_seconds"]; known && st.Source.SystemID != "" { // it was asked
		kept := time.Duration(seconds * float64(time.Second))
		s.binlogKept = &kept
	}
	v := verdictOf(&s)
	r.before = v
	st.Verdict, st.Now = &v, s.numbers()
	r.lostIn = st.Now.LostIn
	if n := r.seen; st.State == "leading" {
		was := r.earlier(n.at)
		acks := n.acks.since(was.acks)
		st.Now.PerSecond = known(perSecond(n.counters["events_published"], was.counters["events_published"], n.at.Sub(was.at)))
		st.Now.P50, st.Now.P99 = known(acks.quantile(.5)), known(acks.quantile(.99))
	}
	r.incidents.note(&st, now)
	return st
}

// earlier are the newest numbers of a sample that are old enough to compare with, or the oldest.
func (r *recorder) earlier(now time.Time) *numbers {
	for _, n := range slices.Backward(r.recent) {
		if now.Sub(n.at) >= recentFor {
			return n
		}
	}
	if len(r.recent) > 0 {
		return r.recent[0]
	}
	return r.seen
}

// walPerSecond is nil while it is not known.
func (r *recorder) walPerSecond(st *Status) *float64 {
	if st.Slot == nil || len(r.wal) == 0 {
		return nil
	}
	from := r.wal[0]
	over := st.Slot.AskedAt.Sub(from.at)
	if over < walLeast || st.Slot.End < from.end { // another server
		return nil
	}
	speed := float64(st.Slot.End-from.end) / over.Seconds()
	return &speed
}

// numbers are those that the situation tells.
func (s *situation) numbers() *Now {
	n := new(Now)
	waits := s.State == "starting" || s.State == "parked" || s.State == "stopped" || s.State == "leading" && s.holdsUp()
	if _, at := s.kept(); !at.IsZero() && waits {
		in := max(0, at.Sub(s.now).Seconds())
		n.LostIn = &in
	}
	if s.State != "leading" && s.State != "stopping" {
		return n
	}
	if s.Connected || s.State == "stopping" { // otherwise nobody knows what was committed
		n.Lag, n.Waiting, n.WaitingBytes = &s.Lag.Seconds, &s.InFlight.Events, &s.InFlight.Bytes
	}
	if s.slotKnown() {
		n.KeptBytes = &s.Slot.RetainedBytes
		if s.Slot.SafeBytes != nil {
			limit := s.Slot.RetainedBytes + *s.Slot.SafeBytes
			n.LimitBytes = &limit
		}
	}
	if d := s.DeadLetters; d != nil {
		n.DeadLetters, n.Held = &d.Events, &d.Held
	}
	return n
}

// holdsUp reports whether the database has to keep what was written since.
func (s *situation) holdsUp() bool {
	share, _ := s.slotShare()
	return len(s.stops()) > 0 || len(s.problems("checkpoint")) > 0 || share >= slotShare
}

func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// sample adds a row to the history.
func (r *recorder) sample(now time.Time) {
	n := r.gather(now)
	st := r.status(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	one := unknownRow()
	set(&one, columnRate, st.Now.PerSecond)
	set(&one, columnLag, st.Now.Lag)
	set(&one, columnP50, st.Now.P50)
	set(&one, columnP99, st.Now.P99)
	set(&one, columnWaiting, st.Now.Waiting)
	set(&one, columnKept, st.Now.KeptBytes)
	set(&one, columnLetters, st.Now.DeadLetters)
	one[columnState] = sample(slices.Index(states(), st.Verdict.State))
	r.history.add(now, one)
	r.recent = append(r.recent, n)
	r.recent = r.recent[max(0, len(r.recent)-2):]
	if len(r.older) == 0 || now.Sub(r.older[len(r.older)-1].at) >= topicsEvery {
		r.older = append(r.older, n)
		for len(r.older) > 1 && now.Sub(r.older[1].at) >= topicsFor {
			r.older = r.older[1:]
		}
	}
	if st.Slot != nil && now.Sub(st.Slot.AskedAt) < looked {
		r.wal = append(r.wal, walEnd{st.Slot.AskedAt, st.Slot.End})
	}
	for len(r.wal) > 0 && now.Sub(r.wal[0].at) > walFor {
		r.wal = r.wal[1:]
	}
}

// set puts what is known into a column.
func set[N int | int64 | float64](r *row, column int, v *N) {
	if v != nil {
		r[column] = sample(*v)
	}
}
