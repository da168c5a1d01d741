package cdctest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Checkpoint is where the relay stores its position.
type Checkpoint string

// The places.
const (
	InRedis  Checkpoint = "redis"
	InFile   Checkpoint = "file"
	SlotOnly Checkpoint = "slot"
)

// Delivery is the relay's mode of delivery.
type Delivery string

// The modes. With ExactlyOnce the reader is read_committed and no fault explains a repeat.
const (
	AtLeastOnce Delivery = "at-least-once"
	ExactlyOnce Delivery = "exactly-once"
)

// Rig is a relay between a database and Kafka, with writers and an independent reader. A failed test logs the seed, the
// relay's last log lines and the violations.
type Rig struct {
	DB     Database
	Kafka  *testenv.KafkaCluster
	Redis  *testenv.RedisServer // nil unless the checkpoint is there
	Relay  *Relay
	Reader *Reader
	Config Config
	Topic  string
	Window int
	Seed   uint64
	// Delivery is the relay's mode.
	Delivery Delivery
	Random   *rand.Rand

	tb         testing.TB
	checkpoint Checkpoint
	announcing sync.Mutex // guards faults and stops: two nemeses may inject faults at the same time
	faults     []Fault
	stops      []Fault // clean ones; see check
	loads      []*Load
	excluded   map[uuid.UUID]bool
	largest    int
	// confirmed is the time up to which everything published is certainly confirmed; see Fault.
	confirmed time.Time
	// disturbed is set if a server was away since the last fault of the relay.
	disturbed atomic.Bool
	back      atomic.Int64 // when a server was last back, Unix nanoseconds
}

// RigOptions are the options of a Rig. Binary, DB and Kafka must be set.
type RigOptions struct {
	Binary     string
	DB         Database
	Kafka      *testenv.KafkaCluster
	Redis      *testenv.RedisServer
	Checkpoint Checkpoint // "" is the first of DB.Checkpoints
	// Listener is the relay's Kafka listener; "" is the plaintext one.
	Listener testenv.Listener
	// Topics are more topics to create and read.
	Topics []string
	// Partitions and TopicSettings apply to each topic; 0 partitions is 4.
	Partitions    int
	TopicSettings map[string]string
	// Window is in_flight.events; 0 is 2000.
	Window int
	// Delivery is the relay's mode; "" is AtLeastOnce.
	Delivery Delivery
	// Committed sets the reader's isolation level to read_committed, as ExactlyOnce does.
	Committed bool
	// Each is called for each record as soon as it arrives; see ReaderOptions.
	Each func(Record)
	// Settings replace settings of the rig, by path.
	Settings map[string]any
}

// NewRig creates the topics and the configuration and starts the reader, but not the relay.
func NewRig(tb testing.TB, o RigOptions) *Rig {
	tb.Helper()
	r := &Rig{
		DB: o.DB, Kafka: o.Kafka, Redis: o.Redis, Topic: o.DB.Name(), Window: orElse(o.Window, 2000), Seed: Seed(tb),
		Delivery: orElse(o.Delivery, AtLeastOnce), tb: tb, checkpoint: orElse(o.Checkpoint, o.DB.Checkpoints()[0]), excluded: map[uuid.UUID]bool{},
	}
	r.Random = rand.New(rand.NewPCG(r.Seed, 0))
	topics := append([]string{r.Topic}, o.Topics...)
	ctx := r.Within(patience)
	for _, topic := range topics {
		r.Must(o.Kafka.CreateTopic(ctx, topic, orElse(o.Partitions, 4), o.TopicSettings))
	}
	if r.Delivery == ExactlyOnce {
		r.Must(o.Kafka.CreateTopic(ctx, r.positions(), 1, map[string]string{"cleanup.policy": "compact"}))
	}
	r.configure(o)
	var err error
	r.Relay, err = NewRelay(o.Binary, tb.TempDir(), r.Config)
	r.Must(err)
	if !slices.Contains(o.DB.Checkpoints(), SlotOnly) {
		_, err := r.Relay.Command(ctx, "setup") // stores the first position
		r.Must(err)
	}
	r.Reader, err = NewReader(ReaderOptions{Brokers: o.Kafka.Bootstrap(), Topics: topics, Committed: o.Committed || r.Delivery == ExactlyOnce, Each: o.Each})
	r.Must(err)
	tb.Cleanup(r.close)
	return r
}

func (r *Rig) configure(o RigOptions) {
	r.Config = Config{
		"source":    r.DB.Config(),
		"routes":    []any{map[string]any{"topic": r.Topic}},
		"kafka":     map[string]any{"brokers": o.Kafka.Addrs(orElse(o.Listener, testenv.ListenerPlain))},
		"in_flight": map[string]any{"events": r.Window},
		"retry":     map[string]any{"initial": "50ms", "max": "500ms"},
		"log":       map[string]any{"format": "text"},
	}
	if r.Delivery != AtLeastOnce {
		r.Config.Set("delivery", string(r.Delivery))
		r.Config.Set("kafka.position_topic", r.positions())
	}
	switch r.checkpoint {
	case InRedis:
		r.Config.Set("checkpoint.redis", map[string]any{"addrs": []string{o.Redis.Addr()}, "key": r.RedisKey()})
	case InFile:
		r.Config.Set("checkpoint.file", "position") // beside the configuration
	case SlotOnly:
	}
	for path, value := range o.Settings {
		r.Config.Set(path, value)
	}
}

// positions returns the topic of positions.
func (r *Rig) positions() string { return r.Topic + "-positions" }

// RedisKey returns the key of the position.
func (r *Rig) RedisKey() string { return "cdc-relay:{" + r.DB.Name() + "}" }

func (r *Rig) close() {
	for _, l := range r.loads {
		_ = l.Stop() // Verify has reported its errors
	}
	if err := r.Relay.Close(); err != nil {
		r.tb.Error(err)
	}
	r.Reader.Close()
	if r.tb.Failed() {
		r.tb.Logf("%s=%d; the relay's log ends with:\n%s", EnvSeed, r.Seed, r.Relay.LogTail(60))
	}
}

// EnvSeed sets the seed of all random choices.
const EnvSeed = "CDC_RELAY_SEED"

// Seed returns the seed that EnvSeed gives, or draws one, and logs it.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	seed := rand.Uint64N(1 << 32)
	if text := os.Getenv(EnvSeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatalf("%s: %v", EnvSeed, err)
		}
	}
	tb.Logf("%s=%d", EnvSeed, seed)
	return seed
}

// Within returns a context that ends with the test, or after d: see [Patience].
func (r *Rig) Within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(r.tb.Context(), Patience(d))
	r.tb.Cleanup(cancel)
	return ctx
}

// Must fails the test if err is not nil.
func (r *Rig) Must(err error) {
	r.tb.Helper()
	if errors.Is(err, errContent) {
		r.Violation(Content, "%v", err)
	}
	if err != nil {
		r.tb.Fatal(err)
	}
}

// patience is the time limit of each wait, long enough for a busy machine.
const patience = 3 * time.Minute

// Await waits for a condition.
func (r *Rig) Await(what string, ok func(ctx context.Context) (bool, error)) {
	r.tb.Helper()
	r.Must(Await(r.Within(patience), what, ok))
}

// Start starts the relay and waits until it leads.
func (r *Rig) Start() {
	r.tb.Helper()
	r.Must(r.Relay.Start(r.tb.Context()))
	r.Must(r.Relay.AwaitReady(r.Within(patience)))
}

// Second is another relay on the same configuration, which is not started.
func (r *Rig) Second() *Relay {
	r.tb.Helper()
	first := r.Relay
	second, err := NewRelay(first.bin, r.tb.TempDir(), r.Config)
	r.Must(err)
	r.tb.Cleanup(func() { // by now they may have changed places
		for _, relay := range []*Relay{first, second} {
			r.Must(relay.Close())
			if relay != r.Relay && r.tb.Failed() {
				r.tb.Logf("the other relay's log ends with:\n%s", relay.LogTail(60))
			}
		}
	})
	return second
}

// Reconfigure sets one setting for the next start.
func (r *Rig) Reconfigure(path string, value any) {
	r.tb.Helper()
	r.Config.Set(path, value)
	r.Must(r.Relay.Configure(r.Config))
}

// AwaitExit waits until the relay ends and checks its exit code.
func (r *Rig) AwaitExit(within time.Duration, code int) Exit {
	r.tb.Helper()
	exit, err := r.Relay.Wait(r.Within(within))
	r.Must(err)
	if exit.Code != code {
		r.tb.Fatalf("exit code %d, want %d", exit.Code, code)
	}
	r.stopped(exit, false)
	r.counted("exit", strconv.Itoa(code))
	return exit
}

// Load starts writers, which Verify stops.
func (r *Rig) Load(w Workload) *Load {
	w.DB, w.Seed = r.DB, r.Seed+uint64(len(r.loads))
	if w.Prefix == "" {
		w.Prefix = fmt.Sprintf("k%d-", len(r.loads))
	}
	l := w.Start(r.tb.Context())
	r.loads = append(r.loads, l)
	return l
}

// Append commits events of one key in one transaction and returns them.
func (r *Rig) Append(key string, n int) []*Event {
	r.tb.Helper()
	return r.AppendAs(key, n, nil)
}

// AppendAs is Append with a change to each event.
func (r *Rig) AppendAs(key string, n int, change func(*Event)) []*Event {
	r.tb.Helper()
	events, err := Append(r.Within(patience), r.DB, key, n, change)
	r.Must(err)
	r.largest = max(r.largest, n)
	return events
}

// Append commits n events of one key in one transaction. change, if not nil, changes each event before.
func Append(ctx context.Context, db Database, key string, n int, change func(*Event)) ([]*Event, error) {
	session, err := db.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	if err := session.Begin(ctx); err != nil {
		return nil, err
	}
	first, err := session.Reserve(ctx, key, n)
	if err != nil {
		return nil, err
	}
	events := make([]*Event, n)
	for i := range events {
		events[i] = NewEvent(key, first+i, 100)
		if change != nil {
			change(events[i])
		}
	}
	if err := session.Insert(ctx, events); err != nil {
		return nil, err
	}
	return events, session.Commit(ctx)
}

// AwaitEvents waits until all of events were read.
func (r *Rig) AwaitEvents(events []*Event) {
	r.tb.Helper()
	ids := make(map[uuid.UUID]bool, len(events))
	for _, e := range events {
		ids[e.ID] = true
	}
	n := len(ids)
	if err := r.arrive(func(ctx context.Context) error { return r.Reader.awaitIDs(ctx, ids) }); err != nil {
		r.missing(err)
	}
	r.counted("arrivals", fmt.Sprintf("%d events", n))
}

// AwaitCount waits until n different events were read, and fails if there are more.
func (r *Rig) AwaitCount(n int) {
	r.tb.Helper()
	if err := r.arrive(func(ctx context.Context) error { return r.Reader.AwaitEvents(ctx, n) }); err != nil {
		r.missing(err)
	}
	if _, have := r.Reader.Count(); have > n {
		r.Violation(Phantom, "%d events were published, %d were committed", have, n)
	}
	r.counted("arrivals", fmt.Sprintf("%d events", n))
}

// AwaitProgress waits until n more events were read.
func (r *Rig) AwaitProgress(n int) {
	r.tb.Helper()
	r.Progress(n)()
}

// Progress returns a function that waits until n more events than now were read.
func (r *Rig) Progress(n int) (wait func()) {
	_, have := r.Reader.Count()
	return func() {
		r.tb.Helper()
		r.Must(r.arrive(func(ctx context.Context) error { return r.Reader.AwaitEvents(ctx, have+n) }))
	}
}

// Delay sleeps for a random time up to most, to vary when the next fault happens. No condition depends on it.
func (r *Rig) Delay(most time.Duration) {
	pause(r.tb.Context(), time.Duration(r.Random.Int64N(int64(most))))
}

// Hold sleeps for d, the duration of a fault.
func (r *Rig) Hold(d time.Duration) { pause(r.tb.Context(), d) }
