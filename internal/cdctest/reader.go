package cdctest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Reader reads all partitions of topics from their start, with another client library than the relay's, and keeps the
// records. Safe for concurrent use.
type Reader struct {
	client *kgo.Client
	topics []string
	each   func(Record)
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	records  []Record
	distinct map[uuid.UUID]bool
	next     map[place]int64 // offset behind the last record
	err      error
	changed  chan struct{} // closed when something was added
}

// errContent: a record cannot be an event's.
var errContent = errors.New("wrong content")

type place struct {
	topic     string
	partition int32
}

// ReaderOptions say what to read.
type ReaderOptions struct {
	Brokers, Topics []string
	// Committed sets the isolation level read_committed.
	Committed bool
	// Each is called for each record as soon as it was read, by one goroutine; nil: nothing is called.
	Each func(Record)
}

// NewReader starts reading; call Close.
func NewReader(o ReaderOptions) (*Reader, error) {
	isolation := kgo.ReadUncommitted()
	if o.Committed {
		isolation = kgo.ReadCommitted()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(o.Brokers...), kgo.ConsumeTopics(o.Topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(isolation), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		kgo.KeepControlRecords(), // so that offsets have no gaps
	)
	if err != nil {
		return nil, fmt.Errorf("read Kafka: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Reader{
		client: client, topics: o.Topics, each: o.Each, cancel: cancel, distinct: map[uuid.UUID]bool{}, next: map[place]int64{},
		changed: make(chan struct{}),
	}
	r.done.Go(func() { r.read(ctx) })
	return r, nil
}

// Close stops reading.
func (r *Reader) Close() {
	r.cancel()
	r.done.Wait()
	r.client.Close()
}

// Also reads another topic from its start.
func (r *Reader) Also(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.topics = append(r.topics, topic)
	r.client.AddConsumeTopics(topic)
}

func (r *Reader) read(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := r.client.PollRecords(ctx, 100) // so that records count soon, although each may take long
		if fetches.IsClientClosed() || ctx.Err() != nil {
			return
		}
		if r.each != nil {
			fetches.EachRecord(func(k *kgo.Record) {
				if rec, err := recordOf(k); err == nil && !k.Attrs.IsControl() {
					r.each(rec)
				}
			})
		}
		// The client retries by itself. If an error does not pass, the next wait reaches its time limit and reports it.
		r.take(fetches)
	}
}

func (r *Reader) take(fetches kgo.Fetches) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	fetches.EachError(func(topic string, partition int32, err error) {
		if _, lost := errors.AsType[*kgo.ErrDataLoss](err); lost {
			r.err = fmt.Errorf("topic %s partition %d lost records: %w", topic, partition, err)
		}
	})
	fetches.EachRecord(func(k *kgo.Record) {
		r.next[place{k.Topic, k.Partition}] = k.Offset + 1
		if k.Attrs.IsControl() {
			return
		}
		rec, err := recordOf(k)
		if err != nil {
			r.err = fmt.Errorf("%w: %w", errContent, err)
			return
		}
		rec.Seen = now
		r.records = append(r.records, rec)
		r.distinct[rec.EventID] = true
	})
	close(r.changed)
	r.changed = make(chan struct{})
}

// Records returns the records read so far; those of one partition are in offset order.
func (r *Reader) Records() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.records)
}

// Count returns how many records and how many different events were read.
func (r *Reader) Count() (records, events int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.records), len(r.distinct)
}

// Has reports whether the event was read.
func (r *Reader) Has(id uuid.UUID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.distinct[id]
}

// wait waits until ok returns true. It calls ok whenever something was read, with r locked.
func (r *Reader) wait(ctx context.Context, ok func() bool) error {
	for {
		r.mu.Lock()
		err, done, changed := r.err, ok(), r.changed
		r.mu.Unlock()
		if err != nil || done {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// AwaitEvents waits until at least n different events were read.
func (r *Reader) AwaitEvents(ctx context.Context, n int) error {
	if err := r.wait(ctx, func() bool { return len(r.distinct) >= n }); err != nil {
		_, have := r.Count()
		return fmt.Errorf("wait for %d events, read %d: %w", n, have, err)
	}
	return nil
}

// AwaitAll waits until every event of t that is not excluded was read.
func (r *Reader) AwaitAll(ctx context.Context, t *Truth, excluded map[uuid.UUID]bool) error {
	if err := r.awaitIDs(ctx, t.published(excluded)); err != nil {
		return fmt.Errorf("of %d committed: %w", t.Len(), err)
	}
	return nil
}

// CatchUp waits until everything that the topics contain now was read. Kafka must be up.
func (r *Reader) CatchUp(ctx context.Context) error {
	var ends map[place]int64
	err := Await(ctx, "the topics' ends", func(ctx context.Context) (_ bool, err error) {
		if ends, err = r.ends(ctx); kerr.IsRetriable(err) { // a leader is being elected
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	err = r.wait(ctx, func() bool {
		for at, end := range ends {
			if r.next[at] < end {
				return false
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("catch up with the topics' ends: %w", err)
	}
	return nil
}

// ends returns the end offset of each partition.
func (r *Reader) ends(ctx context.Context) (map[place]int64, error) {
	r.mu.Lock()
	topics := slices.Clone(r.topics)
	r.mu.Unlock()
	// With authorized operations, so that the client does not answer from its cache, which may lack a new partition.
	listed, err := kadm.NewClient(r.client).ListEndOffsets(kadm.WithAuthorizedOps(ctx), topics...)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the topics' ends: %w", err)
	}
	ends := map[place]int64{}
	listed.Each(func(o kadm.ListedOffset) { ends[place{o.Topic, o.Partition}] = o.Offset })
	return ends, nil
}

// awaitIDs waits until all of these events were read. It modifies ids.
func (r *Reader) awaitIDs(ctx context.Context, ids map[uuid.UUID]bool) error {
	checked := 0
	err := r.wait(ctx, func() bool {
		for ; checked < len(r.records); checked++ {
			delete(ids, r.records[checked].EventID)
		}
		return len(ids) == 0
	})
	if err != nil {
		return fmt.Errorf("wait for events, %d are missing: %w", len(ids), err)
	}
	return nil
}
