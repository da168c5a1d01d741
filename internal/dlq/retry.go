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
	// roundLetters is the most letters of a round, between which commands are heard. A key has at most half of them.
	roundLetters = 2048
	// clockSkew is how much older than its entry a letter's record may be by the brokers' clocks.
	clockSkew = time.Hour
	// farApart is how many offsets between two letters take longer to read than to look up the second.
	farApart = 1000
)

// retry publishes a round of letters, and reports whether any was tried.
func (r *Resolver) retry(ctx context.Context) (bool, error) {
	work, whole := r.index.Retryable(r.round, r.wanted)
	if len(work) == 0 {
		return false, nil
	}
	if len(whole) > 0 {
		if err := r.sink.CloseKeys(ctx, whole); err != nil {
			return false, err
		}
		work = r.allStored(ctx, work, whole)
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

// allStored returns the work with all letters of keys that are closed, once the last ones are written.
func (r *Resolver) allStored(ctx context.Context, work []deadletter.Work, closed []string) []deadletter.Work {
	slices.Sort(closed)
	work = slices.DeleteFunc(work, func(w deadletter.Work) bool {
		_, found := slices.BinarySearch(closed, w.Hold)
		return found
	})
	for until := time.Now().Add(time.Second); ; {
		last, whole := r.index.RetryableOf(closed, r.wanted)
		if len(whole) >= len(closed) || time.Now().After(until) {
			return append(work, last...)
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
	for i := range work {
		partitions[work[i].Partition] = append(partitions[work[i].Partition], work[i])
	}
	leaders := map[string]string{}
	tried := false
	for _, id := range slices.Sorted(maps.Keys(partitions)) {
		n, err := r.retryPartition(ctx, id, partitions[id], leaders)
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
	client    source
	partition int32
	// wanted are the letters that have not been taken, and queues the IDs of those of each key that holds something, the next one first.
	wanted map[string]*deadletter.Work
	queues map[string][]string
	seen   map[string]bool // wanted letters whose records were read in this pass
	chunk  []piece
	bytes  int
	tried  int
	// leaders has why nothing can be published to a topic, or "", for those that were looked at in this round.
	leaders map[string]string
	// stuck are the keys whose letters cannot be published now.
	stuck map[string]bool
}

// piece is a letter that was found.
type piece struct {
	work       deadletter.Work
	letter     *deadletter.Letter
	resolution publisher.Resolution // as it is routed now
}

// retryPartition publishes letters in the order of their records, of any keys, and those of a key in their order. The records of a
// key are in that order, unless some were written again: then they are read again.
func (r *Resolver) retryPartition(ctx context.Context, partition int32, work []deadletter.Work, leaders map[string]string) (int, error) {
	d := &round{
		r: r, ctx: ctx, partition: partition, wanted: map[string]*deadletter.Work{}, queues: map[string][]string{},
		seen: map[string]bool{}, leaders: leaders, stuck: map[string]bool{},
	}
	for i := range work {
		w := &work[i]
		d.wanted[w.ID] = w
		if w.Hold != "" {
			d.queues[w.Hold] = append(d.queues[w.Hold], w.ID)
		}
	}
	var err error
	if d.client, err = r.open(); err != nil {
		return 0, err
	}
	defer d.client.Close()
	for more := true; more && len(d.wanted) > 0; {
		if more, err = d.pass(); err == nil {
			err = d.flush()
		}
		if err != nil {
			return d.tried, err
		}
	}
	return d.tried, nil
}

// pass takes letters whose records are known to be somewhere. If there are none it looks for the others. It reports whether another pass
// may take more.
func (d *round) pass() (more bool, err error) {
	left := len(d.wanted)
	if err := d.readKnown(); err != nil || len(d.wanted) < left {
		return true, err
	}
	return d.search()
}

// readKnown reads the records of letters at the offsets that are known, those that are near each other at once.
func (d *round) readKnown() error {
	var known []int64
	for _, w := range d.wanted {
		if w.Offset > 0 {
			known = append(known, w.Offset)
		}
	}
	slices.Sort(known)
	d.seen = map[string]bool{}
	for len(known) > 0 {
		n := 1
		for n < len(known) && known[n]-known[n-1] < farApart {
			n++
		}
		err := d.client.Read(d.ctx, d.r.opts.Topic, d.partition, known[0], known[n-1]+1, d.see)
		if err != nil {
			return notFound(err)
		}
		known = known[n:]
	}
	for id, w := range d.wanted { // compaction keeps the last record, which may be another one
		if w.Offset > 0 && !d.seen[id] {
			w.Offset = 0
			d.r.index.Found(id, 0)
		}
	}
	return nil
}

// notFound is nil if an error only ends a reading.
func notFound(err error) error {
	if errors.Is(err, errFound) {
		return nil
	}
	return err
}

// search reads the partition from where it was read last, and notes where all letters are that it meets. At the end it begins again;
// what is then not found is missing.
func (d *round) search() (more bool, err error) {
	if !d.unknown() {
		return false, nil
	}
	r := d.r
	from, begun := r.scanned[d.partition]
	if !begun {
		oldest := r.index.Unfound(d.partition)
		if from, err = d.client.OffsetAt(d.ctx, r.opts.Topic, d.partition, oldest.Add(-clockSkew)); err != nil {
			return false, err
		}
	}
	err = d.client.Read(d.ctx, r.opts.Topic, d.partition, from, kafka.Committed, func(rec *kafka.Record) error {
		r.scanned[d.partition] = rec.Offset + 1
		if rec.Value == nil {
			return nil
		}
		id := string(rec.Key)
		r.index.Found(id, rec.Offset)
		if w, ok := d.wanted[id]; ok {
			w.Offset = rec.Offset
		}
		return d.see(rec)
	})
	switch {
	case err != nil:
		return true, notFound(err)
	case begun:
		delete(r.scanned, d.partition)
	default:
		d.missing()
	}
	return true, nil
}

// unknown reports whether it is not known of some letter where its record is.
func (d *round) unknown() bool {
	for _, w := range d.wanted {
		if w.Offset == 0 {
			return true
		}
	}
	return false
}

// see takes a record in, if it is a letter that comes next.
func (d *round) see(rec *kafka.Record) error {
	w, ok := d.wanted[string(rec.Key)]
	if !ok || rec.Value == nil {
		return nil
	}
	d.seen[w.ID] = true
	if w.Hold != "" && d.queues[w.Hold][0] != w.ID {
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
	d.chunk = append(d.chunk, piece{work: *w, letter: l})
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

// lookAgain is how long a letter without a record is not looked for, unless somebody asks.
const lookAgain = time.Minute

// missing notes letters that are not in their topic: somebody has deleted records.
func (d *round) missing() {
	for id, w := range d.wanted {
		if w.Offset > 0 { // it is behind another one
			continue
		}
		delete(d.wanted, id)
		d.tried++
		d.r.asks.outcome(deadletter.Retry, id, failed)
		_, known := d.r.lost[id]
		d.r.lost[id] = time.Now().Add(lookAgain)
		if known {
			continue
		}
		d.r.log.Error("dead letter is in the index and not in its topic: it can only be dropped",
			eventAttr(id, w.Hold, nil), slog.String("letter", id), slog.String("letters", d.r.opts.Topic))
	}
}

// flush publishes the chunk.
func (d *round) flush() error {
	for i := range d.chunk {
		p := &d.chunk[i]
		p.letter.Order, p.letter.Partition, p.letter.Attempts = p.work.Order, p.work.Partition, p.work.Attempts
		if p.work.Blocked {
			p.letter.Attempts++
			p.letter.Tried = time.Now().UTC()
		}
		if !p.letter.Stub {
			p.resolution = d.r.resolution(d.ctx, p)
		}
	}
	chunk, err := d.publishable(d.chunk)
	d.chunk, d.bytes = nil, 0
	if err != nil || len(chunk) == 0 {
		return err
	}
	d.tried += len(chunk)
	noted := map[string][]byte{}
	for i := range chunk {
		if p := &chunk[i]; p.work.Blocked {
			noted[p.work.ID] = p.letter.Encode()
		}
	}
	if err := d.r.sink.NoteAttempts(d.ctx, noted); err != nil {
		return err
	}
	letters := make([]publisher.Resolution, len(chunk))
	for i := range chunk {
		if p := &chunk[i]; p.letter.Stub { // a row may be too large for this machine: the attempt is noted before
			p.resolution = d.r.resolution(d.ctx, p)
		}
		letters[i] = chunk[i].resolution
	}
	return d.r.resolve(d.ctx, deadletter.Retry, letters)
}

// leaderPause is how long letters are not tried whose topic has no leader.
const leaderPause = 5 * time.Second

// publishable leaves letters out whose topic has no leader now, and those behind them: they would hold up all others, and nothing
// would be known of an attempt that is given up.
func (d *round) publishable(chunk []piece) ([]piece, error) {
	var ask []string
	for i := range chunk {
		if m := chunk[i].resolution.Message; m != nil {
			if _, known := d.leaders[m.Topic]; !known {
				d.leaders[m.Topic] = ""
				ask = append(ask, m.Topic)
			}
		}
	}
	if len(ask) > 0 {
		leaderless, err := d.client.Leaderless(d.ctx, ask)
		if err != nil {
			return nil, err
		}
		for topic, partition := range leaderless {
			d.leaders[topic] = fmt.Sprintf("topic %q has no leader for partition %d", topic, partition)
			d.r.log.Warn("dead letters wait", cdc.Repeats(), slog.String("error", d.leaders[topic]))
		}
	}
	return slices.DeleteFunc(chunk, func(p piece) bool {
		m, hold := p.resolution.Message, p.work.Hold
		switch {
		case hold != "" && d.stuck[hold]:
			return true
		case m == nil || d.leaders[m.Topic] == "":
			return false
		}
		d.stuck[hold] = true
		d.r.later[p.work.ID] = postponed{time.Now().Add(leaderPause), d.leaders[m.Topic]}
		return true
	}), nil
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
	outcomes, err := r.outcomes(ctx, letters)
	if err != nil {
		return err
	}
	for i, o := range outcomes {
		l := &letters[i]
		switch {
		case o.Skipped:
		case o.Err != nil:
			r.asks.outcome(do, l.ID, failed)
			r.log.Warn("dead letter stays: it cannot be published",
				cdc.Repeats(), eventAttr(l.ID, l.Hold, l.Message), slog.String("letter", l.ID), slog.String("reason", o.Reason), slog.Any("error", o.Err))
		default:
			became := resolved
			if do == deadletter.Retry && l.Message == nil {
				became = skipped
				r.log.Warn("dead letter dropped: errors.skip lists its event", cdc.Repeats(), eventAttr(l.ID, l.Hold, nil), slog.String("letter", l.ID))
			}
			r.asks.outcome(do, l.ID, became)
			r.done[l.ID] = l.Partition
		}
	}
	return nil
}

// slowAfter is when commands are told that Kafka does not acknowledge.
const slowAfter = 5 * time.Second

// outcomes waits for those of letters. That may take as long as Kafka is away, so commands are heard meanwhile.
func (r *Resolver) outcomes(ctx context.Context, letters []publisher.Resolution) (outcomes []publisher.Outcome, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		outcomes, err = r.sink.Resolve(ctx, letters)
	}()
	slow, waits := time.NewTimer(slowAfter), ""
	defer slow.Stop()
	for {
		select {
		case <-done:
			return outcomes, err
		case <-slow.C:
			waits = "Kafka does not acknowledge what the relay publishes just now: see the relay's log"
		case a := <-r.asked:
			r.asks.take(a)
		}
		for _, p := range r.asks {
			p.waits = waits
		}
		if err := r.answer(ctx, deadletter.Accepted); err != nil {
			<-done // it ends for the same reason
			return nil, err
		}
	}
}

// drop drops a round of the letters that are to be dropped, and reports whether there were any. The saved position should have passed
// them: otherwise a crash brings them back.
func (r *Resolver) drop(ctx context.Context, passed func(place string) bool) (bool, error) {
	var letters []publisher.Resolution
	for _, id := range r.asks.drops() {
		w, settled, found := r.index.Letter(id)
		if !found || !settled || !passed(w.Place) {
			continue
		}
		letters = append(letters, publisher.Resolution{ID: id, Partition: w.Partition, Order: w.Order, Hold: w.Hold})
	}
	slices.SortFunc(letters, func(a, b publisher.Resolution) int { return a.Order.Compare(b.Order) })
	letters = slices.CompactFunc(letters, func(a, b publisher.Resolution) bool { return a.ID == b.ID })
	letters = letters[:min(len(letters), r.round)]
	r.done = map[string]int32{}
	for chunk := range slices.Chunk(letters, chunkLetters) {
		if err := r.resolve(ctx, deadletter.Drop, chunk); err != nil {
			return false, err
		}
		for _, l := range chunk {
			r.log.Info("dead letter dropped, as asked", eventAttr(l.ID, l.Hold, nil), slog.String("letter", l.ID))
		}
	}
	return len(letters) > 0, r.sink.Forget(ctx, r.done)
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
