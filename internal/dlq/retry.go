package dlq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
)

const (
	// chunkLetters and chunkBytes limit what is published again at once: what a crash repeats.
	chunkLetters = 256
	chunkBytes   = 1 << 20
	// quick is the most letters of a round for which new events of their keys wait.
	quick = 1024
	// clockSkew is how much older than its entry a letter's record may be by the brokers' clocks.
	clockSkew = time.Hour
)

// retry publishes a round of letters, and reports whether any was tried.
func (r *Resolver) retry(ctx context.Context) (bool, error) {
	wanted := func(id string, tried time.Time, attempts int) bool {
		return r.asks.retries(id) || r.due(tried, attempts)
	}
	work, whole := r.index.Retryable(wanted)
	if len(work) == 0 {
		return false, nil
	}
	if len(whole) > 0 && len(work) <= quick {
		if err := r.sink.CloseKeys(ctx, whole); err != nil {
			return false, err
		}
		work = r.allStored(ctx, wanted, len(whole))
	}
	r.done = map[string]int32{}
	tried, err := r.retryAll(ctx, work)
	if err == nil {
		err = r.sink.OpenKeys(ctx, whole)
	}
	if err == nil {
		err = r.sink.Forget(ctx, r.done) // last: a commit would wait for the events of closed keys
	}
	return tried, err
}

// allStored returns the work once the last letters of closed keys are written.
func (r *Resolver) allStored(ctx context.Context, wanted func(string, time.Time, int) bool, closed int) []deadletter.Work {
	for until := time.Now().Add(time.Second); ; {
		work, whole := r.index.Retryable(wanted)
		if len(whole) >= closed || time.Now().After(until) {
			return work
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *Resolver) retryAll(ctx context.Context, work []deadletter.Work) (bool, error) {
	partitions := map[int32][]deadletter.Work{}
	for _, w := range work {
		partitions[w.Partition] = append(partitions[w.Partition], w)
	}
	tried := false
	for _, id := range slices.Sorted(maps.Keys(partitions)) {
		n, err := r.retryPartition(ctx, id, partitions[id])
		tried = tried || n > 0
		if err != nil {
			return tried, err
		}
	}
	return tried, nil
}

// round is the part of a round whose letters are in one partition of their topic.
type round struct {
	r         *Resolver
	ctx       context.Context //nolint:containedctx // of one call
	partition int32
	// wanted are the letters that have not been taken, and next the first of each key; "" for those that hold nothing is not in it.
	wanted map[string]deadletter.Work
	queues map[string][]deadletter.Work
	chunk  []piece
	bytes  int
	tried  int
}

// piece is a letter that was found.
type piece struct {
	work   deadletter.Work
	letter *deadletter.Letter
}

// retryPartition publishes letters in the order of their records, of any keys, and those of a key in their order. The records of a
// key are in that order, unless some were written again: then the partition is scanned again.
func (r *Resolver) retryPartition(ctx context.Context, partition int32, work []deadletter.Work) (int, error) {
	d := &round{r: r, ctx: ctx, partition: partition, wanted: map[string]deadletter.Work{}, queues: map[string][]deadletter.Work{}}
	oldest := time.Now()
	for _, w := range work {
		d.wanted[w.ID] = w
		if w.Hold != "" {
			d.queues[w.Hold] = append(d.queues[w.Hold], w)
		}
		if w.Time.Before(oldest) {
			oldest = w.Time
		}
	}
	client, err := kafka.NewClient(r.opts.Kafka)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	from, err := client.OffsetAt(ctx, r.opts.Topic, partition, oldest.Add(-clockSkew))
	for err == nil && len(d.wanted) > 0 {
		left := len(d.wanted)
		err = client.Read(ctx, r.opts.Topic, partition, from, kafka.Committed, d.see)
		if err == nil || errors.Is(err, errFound) {
			err = d.flush()
		}
		if err == nil && left == len(d.wanted) {
			d.missing()
			break
		}
	}
	return d.tried, err
}

// see takes a record in, if it is a letter that comes next.
func (d *round) see(rec *kafka.Record) error {
	w, ok := d.wanted[string(rec.Key)]
	if !ok || rec.Value == nil {
		return nil
	}
	if w.Hold != "" && d.queues[w.Hold][0].ID != w.ID {
		return nil
	}
	l, err := deadletter.Decode(rec.Value, rec.Headers)
	if err != nil {
		return fmt.Errorf("read the dead letter %q: %w", w.ID, err)
	}
	delete(d.wanted, w.ID)
	if w.Hold != "" {
		d.queues[w.Hold] = d.queues[w.Hold][1:]
	}
	d.chunk = append(d.chunk, piece{w, l})
	d.bytes += len(rec.Value)
	if l.Stub {
		d.bytes += chunkBytes // its row may have that much, or more
	}
	switch {
	case len(d.wanted) == 0:
		return errFound // all
	case len(d.chunk) < chunkLetters && d.bytes < chunkBytes:
		return nil
	}
	return d.flush()
}

// missing notes letters that are not in their topic: somebody has deleted records.
func (d *round) missing() {
	for id, w := range d.wanted {
		d.r.asks.outcome(deadletter.Retry, id, false)
		if d.r.lost[id] {
			continue
		}
		d.r.lost[id] = true
		d.r.log.Error("dead letter is in the index and not in its topic: it can only be dropped",
			eventAttr(id, w.Hold, nil), slog.String("letter", id), slog.String("letters", d.r.opts.Topic))
	}
}

// flush publishes the chunk.
func (d *round) flush() error {
	chunk := d.chunk
	d.chunk, d.bytes = nil, 0
	if len(chunk) == 0 {
		return nil
	}
	d.tried += len(chunk)
	now := time.Now().UTC()
	noted := map[string][]byte{}
	for i := range chunk {
		p := &chunk[i]
		p.letter.Order, p.letter.Partition, p.letter.Attempts = p.work.Order, p.work.Partition, p.work.Attempts
		if p.work.Blocked {
			p.letter.Attempts++
			p.letter.Tried = now
			noted[p.work.ID] = p.letter.Encode()
		}
	}
	if err := d.r.sink.NoteAttempts(d.ctx, noted); err != nil {
		return err
	}
	letters := make([]publisher.Resolution, len(chunk))
	for i := range chunk {
		letters[i] = d.r.resolution(d.ctx, &chunk[i])
	}
	return d.r.resolve(d.ctx, deadletter.Retry, letters)
}

// resolution routes a letter as it would be now.
func (r *Resolver) resolution(ctx context.Context, p *piece) publisher.Resolution {
	l := p.letter
	res := publisher.Resolution{
		ID: p.work.ID, Partition: p.work.Partition, Order: p.work.Order, Hold: p.work.Hold, Attempts: l.Attempts,
		Failed: func(reason string, err error) []byte {
			e := l.Entry
			e.Reason, e.Error, e.Tried = reason, deadletter.Shortened(err), time.Now().UTC()
			return e.Encode()
		},
	}
	b, err := r.batch(ctx, l)
	if err != nil { // nothing is known that was not before
		res.Reason, res.Refused = p.letter.Reason, err
		return res
	}
	routed := new(cdc.Routed)
	routed.Reset(b)
	err = r.router.Route(b, routed)
	switch {
	case err != nil:
		res.Reason, res.Refused = reasonOf(err), err
	case len(routed.Refused) > 0:
		res.Reason, res.Refused = routed.Refused[0].Reason, routed.Refused[0].Err
	case len(routed.Messages) > 0:
		res.Message = &routed.Messages[0]
	}
	return res // without a message it is listed under errors.skip, and dropped
}

// batch is the row as the source handed it on. A stub's row is read again, and is in the same place as before.
func (r *Resolver) batch(ctx context.Context, l *deadletter.Letter) (*cdc.Batch, error) {
	b := l.Batch(r.tables)
	if !l.Stub {
		return b, nil
	}
	row, err := r.opts.Row(ctx, l)
	if err != nil {
		return nil, err
	}
	row.Seq, row.Txs, row.TxName = b.Seq, b.Txs, b.TxName
	return row, nil
}

func reasonOf(err error) string {
	if stop, ok := errors.AsType[*cdc.StopError](err); ok {
		return stop.Reason
	}
	return "unroutable"
}

// resolve publishes or drops letters, and tells the asks.
func (r *Resolver) resolve(ctx context.Context, do string, letters []publisher.Resolution) error {
	outcomes, err := r.sink.Resolve(ctx, letters)
	if err != nil {
		return err
	}
	for i, o := range outcomes {
		l := &letters[i]
		id := l.ID
		switch {
		case o.Skipped:
		case o.Err != nil:
			r.asks.outcome(do, id, false)
			r.log.Warn("dead letter stays: it cannot be published",
				cdc.Repeats(), eventAttr(id, l.Hold, l.Message), slog.String("letter", id), slog.String("reason", o.Reason), slog.Any("error", o.Err))
		default:
			r.asks.outcome(do, id, true)
			r.done[id] = l.Partition
		}
	}
	return nil
}

// drop drops the letters that are to be dropped. The saved position should have passed them: otherwise a crash brings them
// back.
func (r *Resolver) drop(ctx context.Context, passed func(place string) bool) error {
	var letters []publisher.Resolution
	for _, id := range r.asks.drops() {
		w, settled, found := r.index.Letter(id)
		if !found || !settled || !passed(w.Place) {
			continue
		}
		letters = append(letters, publisher.Resolution{ID: id, Partition: w.Partition, Order: w.Order, Hold: w.Hold})
	}
	r.done = map[string]int32{}
	for chunk := range slices.Chunk(letters, chunkLetters) {
		if err := r.resolve(ctx, deadletter.Drop, chunk); err != nil {
			return err
		}
		for _, l := range chunk {
			r.log.Info("dead letter dropped, as asked", eventAttr(l.ID, l.Hold, nil), slog.String("letter", l.ID))
		}
	}
	return r.sink.Forget(ctx, r.done)
}

// eventAttr names a letter's event in a log line. Without a message its topic is only in the letter.
func eventAttr(id, hold string, m *cdc.Message) slog.Attr {
	if m != nil {
		return cdc.EventAttr(m.EventID(), m.Key, m.Topic)
	}
	event := id[:max(0, strings.LastIndexByte(id, '@'))]
	_, key, _ := strings.Cut(hold, "\x00")
	return cdc.EventAttr(event, []byte(key), "")
}
