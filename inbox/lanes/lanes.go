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

	run func(Task) time.Duration // with the context that Stop ends

	stopping chan struct{} // closed by the first Stop
	running  sync.WaitGroup
	cancel   context.CancelFunc

	mu      sync.Mutex
	stopped bool
	waiting map[string][]*job // by key, behind the job that runs; a key without a goroutine has no entry
	open    []*job            // of messages, by offset; the first one is unfinished
	bytes   int               // of unfinished messages
	next    int64             // behind the last message that was offered
}

type job struct {
	task    Task
	message bool
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
	return &Lanes{
		config: c, cancel: cancel, stopping: make(chan struct{}), waiting: map[string][]*job{}, next: -1,
		run: func(t Task) time.Duration { return t(ctx) },
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
	j := &job{offset: m.Offset, size: size, message: true}
	j.task = func(ctx context.Context) time.Duration { return l.config.Handle(ctx, m) }
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

// add is called with l.mu. A key has a goroutine while it has a job, and a message without a key has its own: at most
// Count goroutines wait for a worker.
func (l *Lanes) add(key []byte, j *job) {
	if key == nil {
		l.running.Go(func() { l.finish(j) })
		return
	}
	k := string(key)
	if waiting, busy := l.waiting[k]; busy {
		l.waiting[k] = append(waiting, j)
		return
	}
	l.waiting[k] = nil
	l.running.Go(func() {
		for j := j; j != nil && l.finish(j); {
			j = l.following(k)
		}
	})
}

// following returns the key's next job, nil if there is none.
func (l *Lanes) following(key string) *job {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.waiting[key]
	if len(waiting) == 0 {
		delete(l.waiting, key)
		return nil
	}
	l.waiting[key] = waiting[1:]
	return waiting[0]
}

// finish runs the job until it is finished. It reports false if Stop came first.
func (l *Lanes) finish(j *job) bool {
	for {
		again, ok := l.work(j.task)
		if !ok {
			return false
		}
		if again <= 0 {
			l.finished(j)
			return true
		}
		pause := time.NewTimer(again)
		select {
		case <-pause.C:
		case <-l.stopping:
			pause.Stop()
			return false
		}
	}
}

// work runs a task once, when a worker is free.
func (l *Lanes) work(t Task) (again time.Duration, ok bool) {
	select {
	case l.config.Workers <- struct{}{}:
		defer func() { <-l.config.Workers }()
	case <-l.stopping:
		return 0, false
	}
	select {
	case <-l.stopping: // select takes either case if both are ready
		return 0, false
	default:
		return l.run(t), true
	}
}

func (l *Lanes) finished(j *job) {
	if !j.message {
		return
	}
	l.mu.Lock()
	j.done, j.task = true, nil // a finished message behind an unfinished one takes no memory
	l.bytes -= j.size
	for len(l.open) > 0 && l.open[0].done {
		l.open = l.open[1:]
	}
	l.mu.Unlock()
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
