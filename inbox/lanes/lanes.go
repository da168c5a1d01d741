// Package lanes handles the messages of a Kafka partition: those of a key in order, keys in parallel. It tells which offset to
// commit, and needs neither a Kafka client nor a database. Package kgoinbox is a whole consumer on franz-go; with another client:
//
//   - When a partition is assigned, and after a seek, make new [Lanes], with a context that does not end when the partition is given up.
//   - Offer each record. If [Lanes.Offer] reports false, pause the partition, and offer the record again after Config.Finished was called.
//   - After Config.Finished was called, commit [Lanes.Next].
//   - When the partition is to be given up, [Lanes.Stop] with a limit below the group's rebalance timeout, then commit Next.
//   - When the partition is lost, Stop with a context that has ended, and commit nothing.
package lanes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
)

// Task is work in a lane. If it returns a time above 0, it is not finished: it runs again after that time, its key waits
// until then, and its worker is free meanwhile. Return such a time also when ctx has ended before the work was done. A task
// must return: behind one that ends its goroutine (runtime.Goexit, as FailNow of a test does) its key waits until Stop.
type Task func(ctx context.Context) (again time.Duration)

// Workers bounds how many tasks run at once, in all Lanes that share it.
type Workers chan struct{}

// NewWorkers returns n workers, at least one.
func NewWorkers(n int) Workers { return make(Workers, max(n, 1)) }

// Config are the settings of [New].
type Config struct {
	// Handle is the task of each message.
	Handle func(ctx context.Context, m *inbox.Message) (again time.Duration)

	// HandleBatch, if not nil, is given messages that wait, 2 to Batch of them, those of a key in order and behind no other one. It
	// returns those that it has not finished, and with a message those of its key behind it. They are given to Handle, as is a message
	// that comes again.
	HandleBatch func(ctx context.Context, ms []*inbox.Message) (rest []*inbox.Message)
	Batch       int

	// Workers are shared by the partitions of a consumer; nil is one worker.
	Workers Workers

	// Count bounds the messages from the first unfinished one on, the finished ones among them too: so many may be
	// repeated after a crash. 0 is 1,000.
	Count int

	// Bytes bounds the keys, values and headers of the partition's unfinished messages. A larger message is taken if there is no other.
	// 0 is 64 MiB.
	Bytes int

	// Finished, if not nil, is called after each message that finishes, when Next may have moved and there may be room.
	// It is called from several goroutines and must not block.
	Finished func()
}

// Lanes handles the messages of one partition: those of a key one at a time and in order, keys in parallel. A lane is the
// queue of a key; a message with a nil key has its own, so such messages have no order. Lanes needs neither a Kafka client
// nor a database, and is safe for concurrent use.
type Lanes struct {
	config Config

	run   func(*job) time.Duration // with the context that Stop ends
	batch func([]*inbox.Message) (rest []*inbox.Message)

	stopping chan struct{} // closed by the first Stop
	running  sync.WaitGroup
	cancel   context.CancelFunc

	mu      sync.Mutex
	stopped bool
	lanes   map[string]*lane      // by key; a key without a job has none
	ready   []*lane               // whose first job may run
	paused  map[*lane]*time.Timer // whose first job runs again later; all other lanes have a job that runs
	loops   int                   // goroutines that take from ready
	open    []*job                // of messages, by offset; the first one is unfinished
	bytes   int                   // of unfinished messages
	next    int64                 // behind the last message that was offered
}

// lane is the queue of a key. Its fields are guarded by Lanes.mu.
type lane struct {
	key   []byte
	jobs  []*job // unfinished
	taken int    // so many of them run, as a batch
	alone int    // so many of them are for Handle
}

type job struct {
	task    Task           // nil is a message's
	message *inbox.Message // nil when it is finished
	offset  int64
	size    int
	done    bool // guarded by Lanes.mu
}

// New returns the engine of a partition. Tasks get a context with the values of ctx that ends when ctx does, or when
// the context of [Lanes.Stop] ends. Call Stop in the end.
func New(ctx context.Context, c Config) *Lanes {
	ctx, cancel := context.WithCancel(ctx)
	if c.Workers == nil {
		c.Workers = NewWorkers(1)
	}
	if c.Count <= 0 {
		c.Count = 1000
	}
	if c.Bytes <= 0 {
		c.Bytes = 64 << 20
	}
	if c.HandleBatch == nil {
		c.Batch = 0
	}
	return &Lanes{
		config: c, cancel: cancel, stopping: make(chan struct{}), lanes: map[string]*lane{}, paused: map[*lane]*time.Timer{}, next: -1,
		run: func(j *job) time.Duration {
			if j.task != nil {
				return j.task(ctx)
			}
			return c.Handle(ctx, j.message)
		},
		batch: func(ms []*inbox.Message) []*inbox.Message { return c.HandleBatch(ctx, ms) },
	}
}

// Offer takes the message, or reports false if the bounds are full or Lanes are stopped: pause the partition, and offer
// the same message again after Finished was called. It does not block. Offsets must rise, with or without gaps; Offer
// panics if one does not, because [Lanes.Next] would be wrong. Make new Lanes after a seek.
func (l *Lanes) Offer(m *inbox.Message) bool {
	size := len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		size += len(h.Key) + len(h.Value)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || len(l.open) >= l.config.Count || (l.bytes > 0 && l.bytes+size > l.config.Bytes) {
		return false
	}
	if m.Offset < l.next {
		panic(fmt.Sprintf("record %s[%d]@%d was offered after offset %d: make new Lanes after a seek", m.Topic, m.Partition, m.Offset, l.next-1))
	}
	l.next = m.Offset + 1
	l.bytes += size
	j := &job{offset: m.Offset, size: size, message: m}
	l.open = append(l.open, j)
	l.add(m.Key, j)
	return true
}

// Do runs a task in a key's lane, behind the key's messages that were offered before and in front of later ones. It is not
// bounded and moves no offset. It reports false if Lanes are stopped.
func (l *Lanes) Do(key []byte, t Task) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.add(key, &job{task: t})
	}
	return !l.stopped
}

// add is called with l.mu.
func (l *Lanes) add(key []byte, j *job) {
	at := l.lanes[string(key)]
	if key != nil && at != nil {
		at.jobs = append(at.jobs, j)
		return
	}
	at = &lane{key: key, jobs: []*job{j}}
	if key != nil {
		l.lanes[string(key)] = at
	}
	l.queue(at)
}

// queue is called with l.mu.
func (l *Lanes) queue(at *lane) {
	l.ready = append(l.ready, at)
	l.start()
}

// start is called with l.mu. More goroutines than workers would only wait.
func (l *Lanes) start() {
	if !l.stopped && len(l.ready) > 0 && l.loops < cap(l.config.Workers) {
		l.loops++
		l.running.Go(l.loop)
	}
}

// loop runs jobs until none is ready.
func (l *Lanes) loop() {
	idle := false
	defer func() {
		if !idle { // a task has ended this goroutine
			l.mu.Lock()
			defer l.mu.Unlock()
			l.loops--
			l.start()
		}
	}()
	for !idle {
		idle = l.work()
	}
}

// work runs one job or a batch, when a worker is free. It reports true if none is ready.
func (l *Lanes) work() (idle bool) {
	select {
	case l.config.Workers <- struct{}{}:
		defer func() { <-l.config.Workers }()
	case <-l.stopping:
		return true
	}
	lanes, j, ms := l.take()
	switch {
	case lanes == nil:
		return true
	case len(ms) > 1:
		l.batched(lanes, l.batch(ms))
	default:
		l.ran(lanes[0], l.run(j))
	}
	return false
}

// take returns the lanes whose jobs run now: one with its first job, or those of a batch.
func (l *Lanes) take() (lanes []*lane, first *job, ms []*inbox.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || len(l.ready) == 0 {
		l.loops--
		return nil, nil, nil
	}
	at := l.ready[0]
	if at.batchable(l.config.Batch) == 0 {
		l.ready = l.ready[1:]
		return []*lane{at}, at.jobs[0], nil
	}
	rest := l.ready[:0]
	for _, at := range l.ready {
		at.taken = at.batchable(l.config.Batch - len(ms))
		if at.taken == 0 {
			rest = append(rest, at)
			continue
		}
		lanes = append(lanes, at)
		for _, j := range at.jobs[:at.taken] {
			ms = append(ms, j.message)
		}
	}
	clear(l.ready[len(rest):])
	l.ready = rest
	l.start() // for those that are left
	return lanes, lanes[0].jobs[0], ms
}

// batchable returns how many of the lane's jobs may be in a batch, at most so many.
func (at *lane) batchable(most int) (n int) {
	for at.alone == 0 && n < min(most, len(at.jobs)) && at.jobs[n].message != nil {
		n++
	}
	return n
}

// batched is called after a batch.
func (l *Lanes) batched(lanes []*lane, rest []*inbox.Message) {
	unfinished := make(map[*inbox.Message]bool, len(rest))
	for _, m := range rest {
		unfinished[m] = true
	}
	l.mu.Lock()
	for _, at := range lanes {
		n := 0
		for n < at.taken && !unfinished[at.jobs[n].message] {
			n++
		}
		at.alone = at.taken - n
		l.finish(at, n)
	}
	l.mu.Unlock()
	l.notify()
}

// ran is called after a lane's first job.
func (l *Lanes) ran(at *lane, again time.Duration) {
	l.mu.Lock()
	if again > 0 {
		defer l.mu.Unlock()
		at.alone = max(at.alone, 1)
		if !l.stopped {
			l.paused[at] = time.AfterFunc(again, func() { l.resume(at) })
		}
		return
	}
	message := at.jobs[0].message != nil
	at.alone = max(at.alone-1, 0)
	l.finish(at, 1)
	l.mu.Unlock()
	if message {
		l.notify()
	}
}

func (l *Lanes) resume(at *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.paused, at)
	l.queue(at)
}

// finish is called with l.mu. It takes n finished jobs out of a lane that ran, and lets the next one run.
func (l *Lanes) finish(at *lane, n int) {
	for _, j := range at.jobs[:n] {
		j.done, j.message = true, nil // a finished message behind an unfinished one takes no memory
		l.bytes -= j.size
	}
	at.jobs = at.jobs[n:]
	for len(l.open) > 0 && l.open[0].done {
		l.open = l.open[1:]
	}
	switch {
	case len(at.jobs) > 0:
		l.queue(at)
	case at.key != nil:
		delete(l.lanes, string(at.key))
	}
}

func (l *Lanes) notify() {
	if l.config.Finished != nil {
		l.config.Finished()
	}
}

// Next returns the offset to commit: every message before it is finished. That is the first unfinished message's offset,
// or the one behind the last message; offsets between two messages have no message (the topic was compacted, or they were
// a transaction's). It is -1 before the first message, and never falls.
func (l *Lanes) Next() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) > 0 {
		return l.open[0].offset
	}
	return l.next
}

// Len returns how many messages count against the bound: those from the first unfinished one on.
func (l *Lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Stop starts no task anymore and waits for those that run. If ctx ends first, the context of the tasks ends and Stop
// returns ctx's error without waiting for them. In both cases [Lanes.Next] is the offset to commit afterwards.
func (l *Lanes) Stop(ctx context.Context) error {
	l.mu.Lock()
	if !l.stopped {
		l.stopped = true
		close(l.stopping)
		for _, timer := range l.paused {
			timer.Stop()
		}
	}
	l.mu.Unlock()
	defer l.cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.running.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for handlers: %w", ctx.Err())
	}
}
