package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const (
	// firstLook is how many offsets before the end are read first; each further look reads twice as many.
	firstLook  = 64
	fetchBytes = 1 << 20
)

// Committed stands for the end of what is committed or aborted.
const Committed = -1

// LastRecord returns the value of the last committed record with key in partition 0 of topic, before the offset end or
// [Committed]; found is false if there is none. It reads backwards, as a topic may hold many older records that were not
// compacted yet.
func (c *Client) LastRecord(ctx context.Context, topic, key string, end int64) (value []byte, found bool, err error) {
	leader, err := c.leader(ctx, topic)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = leader.Close() }()
	start, err := offsetAt(leader, topic, sarama.OffsetOldest)
	if err == nil && end == Committed {
		end, err = offsetAt(leader, topic, sarama.OffsetNewest)
	}
	if err != nil {
		return nil, false, err
	}
	for n := int64(firstLook); !found && err == nil; n *= 2 {
		from := max(start, end-n)
		value, found, err = lastBetween(ctx, leader, topic, key, from, end)
		if from == start {
			break
		}
	}
	return value, found, err
}

// leader connects to the leader of partition 0.
func (c *Client) leader(ctx context.Context, topic string) (*Conn, error) {
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
				if p.ID == 0 && b.ID() == p.Leader {
					return c.connect(ctx, b.Addr(), c.opts.RequestTimeout, 1)
				}
			}
		}
	}
	return nil, fmt.Errorf("read topic %q: %w", topic, sarama.ErrLeaderNotAvailable)
}

// offsetAt returns the first offset that the partition may still have, or the end of what is committed.
func offsetAt(b *Conn, topic string, at int64) (int64, error) {
	req := &sarama.OffsetRequest{Version: 4, IsolationLevel: sarama.ReadCommitted}
	req.AddBlock(topic, 0, at, 1)
	res, err := b.GetAvailableOffsets(req)
	if err != nil {
		return 0, fmt.Errorf("read topic %q: %w", topic, err)
	}
	block := res.GetBlock(topic, 0)
	switch {
	case block == nil:
		return 0, fmt.Errorf("read topic %q: %w", topic, errNoPartition)
	case block.Err != sarama.ErrNoError:
		return 0, readError(topic, block.Err)
	}
	return block.Offset, nil
}

var errNoPartition = errors.New("the broker's response leaves the partition out")

func readError(topic string, code sarama.KError) error {
	cause := fmt.Errorf("read topic %q: %w", topic, code)
	if code == sarama.ErrTopicAuthorizationFailed {
		return cdc.Stop(cdc.ClassConfig, "topic_denied", cause, "grant the relay's principal DESCRIBE, READ and WRITE on it")
	}
	return cause
}

// lastBetween reads the offsets from from to before end.
func lastBetween(ctx context.Context, b *Conn, topic, key string, from, end int64) (value []byte, found bool, err error) {
	for offset := from; offset < end; {
		if ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
		block, err := fetch(b, topic, offset, end)
		if err != nil {
			return nil, false, err
		}
		for batch := range committed(block) {
			for _, r := range batch.Records {
				at := batch.FirstOffset + r.OffsetDelta
				if at >= from && at < end && string(r.Key) == key {
					value, found = r.Value, true
				}
			}
		}
		offset = behind(block, offset)
	}
	return value, found, nil
}

// behind is the offset to read next. A batch that compaction has emptied is left out of the response.
func behind(block *sarama.FetchResponseBlock, offset int64) int64 {
	offset++
	for _, set := range block.RecordsSet {
		if set.RecordBatch != nil {
			offset = max(offset, set.RecordBatch.LastOffset()+1)
		}
	}
	return offset
}

func fetch(b *Conn, topic string, offset, end int64) (*sarama.FetchResponseBlock, error) {
	req := &sarama.FetchRequest{Version: 11, MaxWaitTime: 100, MinBytes: 1, MaxBytes: fetchBytes, Isolation: sarama.ReadCommitted, SessionEpoch: -1}
	req.AddBlock(topic, 0, offset, fetchBytes, -1)
	res, err := b.Fetch(req)
	if err != nil {
		return nil, fmt.Errorf("read topic %q: %w", topic, err)
	}
	block := res.GetBlock(topic, 0)
	switch {
	case block == nil:
		return nil, fmt.Errorf("read topic %q: %w", topic, errNoPartition)
	case block.Err != sarama.ErrNoError:
		return nil, readError(topic, block.Err)
	case block.LastStableOffset < end: // a new leader has yet to hear from its followers
		return nil, cdc.Fixable("if that lasts, end the transaction that another producer has open in the topic: nobody else may write to it",
			"read topic %q: it is readable to offset %d, not to %d yet", topic, block.LastStableOffset, end)
	}
	return block, nil
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
