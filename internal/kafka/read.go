package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const (
	// Oldest stands for the first offset that a partition still has.
	Oldest = sarama.OffsetOldest
	// Committed stands for the end of what is committed or aborted.
	Committed = sarama.OffsetNewest

	fetchBytes = 1 << 20
	fetchWait  = 250 // ms
	// emptyAgain is how often an offset before the end is asked for again that is answered without records: a batch that compaction has
	// emptied, which sarama leaves out, or one that tiered storage did not return in time.
	emptyAgain = 4
)

// Record is a committed record that was read. Its slices are its reader's.
type Record struct {
	Partition int32
	Offset    int64
	// Time is the producer's, or the broker's, as the topic's message.timestamp.type says.
	Time       time.Time
	Key, Value []byte
	Headers    []cdc.Header
}

// Read calls fn for every committed record of a partition from the offset from, or [Oldest], to before end, or
// [Committed], in order. It blocks meanwhile. An error of fn ends it.
func (c *Client) Read(ctx context.Context, topic string, partition int32, from, end int64, fn func(*Record) error) error {
	r, err := c.reader(ctx, topic, partition)
	if err != nil {
		return err
	}
	defer r.close()
	start, err := r.offsetAt(Oldest)
	if err == nil && end == Committed {
		end, err = r.offsetAt(Committed)
	}
	if err != nil {
		return err
	}
	return r.between(ctx, max(start, from), end, fn)
}

// Follow calls fn for every committed record of a partition from the offset from on, as it comes, until ctx ends, a request
// fails, or fn returns an error.
func (c *Client) Follow(ctx context.Context, topic string, partition int32, from int64, fn func(*Record) error) error {
	r, err := c.reader(ctx, topic, partition)
	if err != nil {
		return err
	}
	defer r.close()
	for offset := from; ; {
		block, err := r.fetch(offset, 0)
		if err == nil {
			err = r.each(block, offset, block.LastStableOffset, fn)
		}
		if err != nil {
			return err
		}
		if offset < block.LastStableOffset {
			offset = behind(block, offset)
		}
	}
}

// OffsetAt returns the offset of the first record of a partition that is not older than at, or its end.
func (c *Client) OffsetAt(ctx context.Context, topic string, partition int32, at time.Time) (int64, error) {
	r, err := c.reader(ctx, topic, partition)
	if err != nil {
		return 0, err
	}
	defer r.close()
	offset, err := r.offsetAt(max(0, at.UnixMilli())) // negative times have other meanings
	if err == nil && offset < 0 {                     // none is as young
		offset, err = r.offsetAt(Committed)
	}
	return offset, err
}

// Truncated reports whether err says that a partition ends before the offset from which it was to be read.
func Truncated(err error) bool { return errors.Is(err, sarama.ErrOffsetOutOfRange) }

// reader reads one partition from its leader.
type reader struct {
	conn  *Conn
	topic string
	id    int32
}

func (r *reader) close() { _ = r.conn.Close() }

// reader connects to the partition's leader.
func (c *Client) reader(ctx context.Context, topic string, partition int32) (*reader, error) {
	md, err := c.Metadata(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	for _, tp := range md.Topics {
		if tp.Err == sarama.ErrUnknownTopicOrPartition {
			return nil, MissingTopicError(topic, ErrTopicMissing)
		}
		if tp.Err == sarama.ErrTopicAuthorizationFailed { // or missing, which brokers do not tell then
			return nil, readError(topic, tp.Err)
		}
		for _, p := range tp.Partitions {
			for _, b := range md.Brokers {
				if p.ID == partition && b.ID() == p.Leader {
					conn, err := c.connect(ctx, b.Addr(), c.opts.RequestTimeout, 1)
					return &reader{conn, topic, partition}, err
				}
			}
		}
	}
	return nil, fmt.Errorf("read topic %q partition %d: %w", topic, partition, sarama.ErrLeaderNotAvailable)
}

// offsetAt returns the offset at a time in Unix milliseconds, at [Oldest], or at [Committed].
func (r *reader) offsetAt(at int64) (int64, error) {
	req := &sarama.OffsetRequest{Version: 4, IsolationLevel: sarama.ReadCommitted}
	req.AddBlock(r.topic, r.id, at, 1)
	res, err := r.conn.GetAvailableOffsets(req)
	if err != nil {
		return 0, fmt.Errorf("read topic %q: %w", r.topic, err)
	}
	block := res.GetBlock(r.topic, r.id)
	switch {
	case block == nil:
		return 0, fmt.Errorf("read topic %q: %w", r.topic, errNoPartition)
	case block.Err != sarama.ErrNoError:
		return 0, readError(r.topic, block.Err)
	}
	return block.Offset, nil
}

var errNoPartition = errors.New("the broker's response leaves the partition out")

// ReasonTopicDenied is the reason when the principal may not read a topic.
const ReasonTopicDenied = "topic_denied"

func readError(topic string, code sarama.KError) error {
	cause := fmt.Errorf("read topic %q: %w", topic, code)
	if code == sarama.ErrTopicAuthorizationFailed {
		return cdc.Stop(cdc.ClassConfig, ReasonTopicDenied, cause, "grant the relay's principal DESCRIBE, READ and WRITE on it")
	}
	return cause
}

// between reads the offsets from from to before end.
func (r *reader) between(ctx context.Context, from, end int64, fn func(*Record) error) error {
	for offset := from; offset < end; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		block, err := r.fetch(offset, end)
		if err != nil {
			return err
		}
		if err := r.each(block, offset, end, fn); err != nil {
			return err
		}
		offset = behind(block, offset)
	}
	return nil
}

// each calls fn for the records of a response from the offset from to before end.
func (r *reader) each(block *sarama.FetchResponseBlock, from, end int64, fn func(*Record) error) error {
	for batch := range committed(block) {
		for _, rec := range batch.Records {
			at := batch.FirstOffset + rec.OffsetDelta
			if at < from || at >= end {
				continue
			}
			if err := fn(record(r.id, at, batch, rec)); err != nil {
				return err
			}
		}
	}
	return nil
}

func record(partition int32, offset int64, batch *sarama.RecordBatch, r *sarama.Record) *Record {
	rec := &Record{Partition: partition, Offset: offset, Time: batch.FirstTimestamp.Add(r.TimestampDelta), Key: r.Key, Value: r.Value}
	if batch.LogAppendTime {
		rec.Time = batch.MaxTimestamp
	}
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, cdc.Header{Key: h.Key, Value: h.Value})
	}
	return rec
}

// behind is the offset to read next.
func behind(block *sarama.FetchResponseBlock, offset int64) int64 {
	offset++
	for _, set := range block.RecordsSet {
		if set.RecordBatch != nil {
			offset = max(offset, set.RecordBatch.LastOffset()+1)
		}
	}
	return offset
}

func (r *reader) fetch(offset, end int64) (*sarama.FetchResponseBlock, error) {
	req := &sarama.FetchRequest{Version: 11, MaxWaitTime: fetchWait, MinBytes: 1, MaxBytes: fetchBytes, Isolation: sarama.ReadCommitted, SessionEpoch: -1}
	req.AddBlock(r.topic, r.id, offset, fetchBytes, -1)
	for empty := 0; ; {
		res, err := r.conn.Fetch(req)
		if err != nil {
			return nil, fmt.Errorf("read topic %q: %w", r.topic, err)
		}
		block := res.GetBlock(r.topic, r.id)
		switch {
		case block == nil && res.ThrottleTime > 0: // over the client's quota: sarama waits before it sends the next one
		case block == nil:
			return nil, fmt.Errorf("read topic %q: %w", r.topic, errNoPartition)
		case block.Err != sarama.ErrNoError:
			return nil, readError(r.topic, block.Err)
		case block.LastStableOffset < end: // a new leader has yet to hear from its followers
			return nil, cdc.Fixable(fmt.Sprintf("wait for up to %s, after which Kafka aborts the transaction of a relay that was killed and had another kafka.transactional_id; if it lasts longer, end the transaction of another producer: only the relay may write to this topic", TransactionTimeout),
				"read topic %q: it is readable to offset %d, not to %d yet, because a transaction is open in it", r.topic, block.LastStableOffset, end)
		case len(block.RecordsSet) > 0, offset >= block.LastStableOffset, empty == emptyAgain:
			return block, nil
		default:
			empty++
		}
	}
}

// committed yields the batches without those of aborted transactions, whose records stay in the log. A transaction of
// the list ends at its producer's next control batch.
func committed(block *sarama.FetchResponseBlock) iter.Seq[*sarama.RecordBatch] {
	aborted := slices.Clone(block.AbortedTransactions)
	slices.SortFunc(aborted, func(a, b *sarama.AbortedTransaction) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	open := map[int64]bool{} // producer IDs in an aborted transaction
	return func(yield func(*sarama.RecordBatch) bool) {
		for _, set := range block.RecordsSet {
			batch := set.RecordBatch
			if batch == nil {
				continue
			}
			for len(aborted) > 0 && aborted[0].FirstOffset <= batch.LastOffset() {
				open[aborted[0].ProducerID] = true
				aborted = aborted[1:]
			}
			switch {
			case batch.Control:
				delete(open, batch.ProducerID)
			case batch.IsTransactional && open[batch.ProducerID]:
			case !yield(batch):
				return
			}
		}
	}
}
