package admin

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// recording is a relay whose state and metrics a test sets.
type recording struct {
	*recorder

	st         Status
	published  *prometheus.CounterVec
	acks       prometheus.Histogram
	topicAcks  *prometheus.HistogramVec
	errors     *prometheus.CounterVec
	unreadable error
}

func newRecording() *recording {
	r := &recording{
		published: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cdc_relay_events_published_total", Help: "h"}, []string{"topic"}),
		acks:      prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cdc_relay_commit_to_ack_seconds", Help: "h", NativeHistogramBucketFactor: 1.1}),
		topicAcks: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cdc_relay_page_commit_to_ack_seconds", Help: "h", NativeHistogramBucketFactor: 1.1}, []string{"topic"}),
		errors:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cdc_relay_publish_errors_total", Help: "h"}, []string{"topic", "reason"}),
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(r.published, r.acks, r.topicAcks, r.errors)
	r.st = Status{State: "leading", Connected: true}
	r.recorder = newRecorder(&Options{Gatherer: reg, Status: func() Status { return r.st }, Ready: func() error { return r.unreadable }})
	return r
}

func (r *recording) publish(topic string, n int, each float64) {
	r.published.WithLabelValues(topic).Add(float64(n))
	for range n {
		r.acks.Observe(each)
		r.topicAcks.WithLabelValues(topic).Observe(each)
	}
}

// The present rate and percentiles are of the last seconds, those of topics of the last quarter of an hour; rejections are apart from retries.
func TestNumbersAreOfTheirTime(t *testing.T) {
	r := newRecording()
	at := time.Unix(1_000_000, 0)
	r.publish("orders", 1000, 5)
	r.errors.WithLabelValues("orders", "message_too_large").Add(7)
	r.sample(at)
	for i := 1; i <= 6*20; i++ { // 20 minutes
		r.publish("orders", 100, .010)
		at = at.Add(sampleEvery)
		r.sample(at)
	}
	r.errors.WithLabelValues("orders", "message_too_large").Inc()
	r.errors.WithLabelValues("orders", "not_leader_or_follower").Add(2)
	r.errors.WithLabelValues("refused", "not_leader_or_follower").Inc()
	at = at.Add(4 * time.Second)
	p := r.page(at, 60)
	if got := *p.Now.PerSecond; math.Abs(got-100./14) > .01 {
		t.Errorf("%f a second", got)
	}
	if math.Abs(*p.Now.P99-.010) > .001 || math.Abs(*p.Topics.List[0].P99-.010) > .001 {
		t.Errorf("p99 %f, of the topic %f", *p.Now.P99, *p.Topics.List[0].P99)
	}
	orders, refused := p.Topics.List[0], p.Topics.List[1]
	if orders.Rejected != 1 || orders.Retried != 2 || !orders.Last.Equal(at.Add(-4*time.Second)) || refused.Retried != 1 || refused.P99 != nil || !refused.Last.IsZero() {
		t.Errorf("%+v, %+v", orders, refused)
	}
	if s := p.Topics.Seconds; s < 900 || s > 1204 {
		t.Errorf("topics are of %f s", s)
	}
	if n := len(p.History.Samples); n != 121 || p.History.Samples[120][columnRate] != 10 || p.History.Samples[120][columnKept] == 0 {
		t.Errorf("%d rows, the last is %v", n, p.History.Samples[n-1])
	}
	at = at.Add(30 * time.Second)
	r.sample(at)
	r.sample(at.Add(sampleEvery))
	if st := r.status(at.Add(2 * sampleEvery)); *st.Now.PerSecond != 0 || st.Now.P99 != nil {
		t.Errorf("%+v", st.Now)
	}
}

// The slot's end comes from how much WAL was written in the last minutes, not from how much more the slot keeps since.
func TestSpeedOfTheWAL(t *testing.T) {
	r := newRecording()
	at, safe := time.Unix(1_000_000, 0), int64(600<<20)
	for i := range 90 {
		now := at.Add(time.Duration(i) * sampleEvery)
		end := uint64(1<<40 + i*10<<20) // 1 MiB a second
		r.st.Slot = &cdc.SlotStatus{RetainedBytes: 56, SafeBytes: &safe, End: end, AskedAt: now}
		r.publish("orders", 1, .01)
		r.sample(now)
		if st := r.status(now); st.Now.LostIn != nil || st.Verdict.State != Publishing {
			t.Fatalf("%d: %+v", i, st.Verdict)
		}
	}
	now := at.Add(90 * sampleEvery)
	r.st.Slot.AskedAt, r.st.Slot.End = now, r.st.Slot.End+10<<20
	r.st.Problems = []Problem{{With: "kafka", Since: now.Add(-9 * time.Second), Cause: "refused"}}
	st := r.status(now)
	if st.Verdict.State != NotPublishing || st.Now.LostIn == nil || math.Abs(*st.Now.LostIn-600) > 1 {
		t.Errorf("%+v, %+v", st.Verdict, st.Now)
	}
	found := make(chan prometheus.Metric, 1)
	if r.Collect(found); len(found) != 1 {
		t.Error("the metric is missing")
	}
	if r.st.State = "starting"; r.status(now).Now.LostIn == nil {
		t.Error("a start that waits for Kafka does not say when WAL is lost")
	}
	r.st.State, r.st.Slot.End = "leading", 5 // another server
	if st := r.status(now); st.Now.LostIn != nil || !strings.Contains(st.Verdict.Effect, "not known yet") {
		t.Errorf("%+v", st.Verdict)
	}
}

// Each change of the state and of problems is one incident, with its beginning and its end.
func TestIncidents(t *testing.T) {
	r := newRecording()
	at := time.Unix(1_000_000, 0)
	step := func(change func(st *Status)) {
		at = at.Add(time.Second)
		change(&r.st)
		r.status(at)
	}
	state := func(s string) func(*Status) {
		return func(st *Status) { st.State, st.Since = s, at }
	}
	refused := Problem{With: "kafka", Server: "k1:9092", Since: at, Cause: "refused\x1b"}
	step(state("standby"))
	step(state("leading"))
	step(func(st *Status) { st.Problems = []Problem{refused} })
	step(func(st *Status) { st.Problems = []Problem{refused, {With: "database", Since: at, Cause: "away"}} })
	step(func(st *Status) { st.Problems = st.Problems[1:] })
	step(func(st *Status) { st.Problems = nil })
	step(func(st *Status) { st.LastError = &Error{Cause: "event 7"}; state("parked")(st) })
	var got []string
	for _, i := range r.page(at, 1).Incidents {
		text := i.What + " " + i.Server + " " + i.Cause
		if i.To.IsZero() {
			text += " goes on"
		}
		got = append(got, strings.Join(strings.Fields(text), " "))
	}
	if want := `parked event 7 goes on|database away|takeover|standby|kafka k1:9092 refused\x1b`; strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
	for i := range 300 {
		step(func(st *Status) {
			st.Problems = []Problem{{With: "kafka", Server: strings.Repeat("k", i%7), Since: at}}
		})
	}
	if n := len(r.page(at, 1).Incidents); n != keptIncidents {
		t.Errorf("%d incidents", n)
	}
}

// What only a leader knows is absent on a relay that does not lead, and what the database tells is while it is away.
func TestNothingUntrue(t *testing.T) {
	r := newRecording()
	now, safe := time.Unix(1_000_000, 0), int64(1<<30)
	r.publish("orders", 5, .01)
	r.st.Slot = &cdc.SlotStatus{Status: "reserved", RetainedBytes: 5 << 20, SafeBytes: &safe, AskedAt: now}
	r.sample(now)
	now = now.Add(time.Minute)
	r.st.Connected, r.st.Problems = false, []Problem{{With: "database", Since: now.Add(-time.Minute), Cause: "refused"}}
	p := r.page(now, 60)
	if p.Now.KeptBytes != nil || p.Now.LimitBytes != nil || p.Now.LostIn != nil || p.Slot.AskedAt.IsZero() || p.Standbys != nil || p.Steps[0].State != "broken" || p.Steps[1].State != "waiting" {
		t.Errorf("%+v, %+v", p.Now, p.Steps)
	}
	r.st, r.unreadable = Status{State: "standby", Leader: "PID 7"}, errors.New("not ready")
	p = r.page(now, 60)
	if *p.Now != (Now{}) || p.Leader.Publishing != nil || p.Leader.Name != "PID 7" {
		t.Errorf("%+v, %+v", p.Now, p.Leader)
	}
	for _, s := range p.Steps {
		if s.State != "unknown" && s.State != "off" || s.Text != "" {
			t.Errorf("%+v", s)
		}
	}
	r.sample(now)
	if last := r.page(now, 60).History.Samples; !math.IsNaN(float64(last[len(last)-1][columnLag])) || last[len(last)-1][columnState] != 3 {
		t.Errorf("%v", last)
	}
}
