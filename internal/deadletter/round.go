package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

const (
	// chunkLetters and chunkBytes limit what is published again at once: what a crash repeats.
	chunkLetters = 256
	chunkBytes   = 1 << 20
	// clockSkew is how much older than its entry a letter's record may be by the brokers' clocks.
	clockSkew = time.Hour
	// farApart is how many offsets between two letters take longer to read than to look up the second.
	farApart = 1000
)

// round is the part of a round whose letters are in one partition of their topic.
type round struct {
	r         *Resolver
	ctx       context.Context //nolint:containedctx // of one call
	client    source
	partition int32
	// wanted are the letters that have not been taken, and queues the IDs of those of each key that holds something, the next one first.
	wanted map[string]*Work
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
	Resolution // as it is routed now

	letter *Letter
}

// retryPartition publishes letters in the order of their records, of any keys, and those of a key in their order. The records of a
// key are in that order, unless some were written again: then they are read again.
func (r *Resolver) retryPartition(ctx context.Context, partition int32, work []Work, leaders map[string]string) (int, error) {
	d := &round{
		r: r, ctx: ctx, partition: partition, wanted: map[string]*Work{}, queues: map[string][]string{},
		seen: map[string]bool{}, leaders: leaders, stuck: map[string]bool{},
	}
	for i := range work {
		w := &work[i]
		d.wanted[w.ID] = w
		if w.Hold != "" {
			d.queues[w.Hold] = append(d.queues[w.Hold], w.ID)
		}
	}
	d.client = r.open()
	defer d.client.Close()
	for more := true; more && len(d.wanted) > 0; {
		var err error
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
		switch {
		case err == nil:
			known = known[n:]
		case errors.Is(err, errFound):
			return nil
		case kafka.Truncated(err) || d.endsBefore(known[n-1]):
			known = nil // a search finds the letters that are still there
		default:
			return err
		}
	}
	for id, w := range d.wanted { // compaction keeps the last record, which may be another one
		if w.Offset > 0 && !d.seen[id] {
			d.at(id, 0)
		}
	}
	return nil
}

// endsBefore reports whether the partition ends at or before an offset: somebody has truncated it, or deleted its topic and made it
// again. At its end there is nothing to read, which is no error, so it is read behind the offset.
func (d *round) endsBefore(offset int64) bool {
	return kafka.Truncated(d.client.Read(d.ctx, d.r.opts.Topic, d.partition, offset+1, offset+2, func(*kafka.Record) error { return errFound }))
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
	again := map[string]int64{} // a repair may have written a letter again, with what its row was then: the last record counts
	err = d.client.Read(d.ctx, r.opts.Topic, d.partition, from, kafka.Committed, func(rec *kafka.Record) error {
		r.scanned[d.partition] = rec.Offset + 1
		if rec.Value == nil {
			return nil
		}
		id := string(rec.Key)
		if cdc.OfTable(placeOf(id)) {
			again[id] = rec.Offset
			return nil
		}
		d.at(id, rec.Offset)
		return d.see(rec)
	})
	if err == nil { // at the end of the partition
		for id, offset := range again {
			d.at(id, offset)
		}
	}
	switch {
	case errors.Is(err, errFound):
	case err != nil:
		return false, err
	case begun:
		delete(r.scanned, d.partition)
	default:
		d.missing()
	}
	return true, nil
}

// at notes the offset of a letter's record.
func (d *round) at(id string, offset int64) {
	d.r.index.Found(id, offset)
	if w, ok := d.wanted[id]; ok {
		w.Offset = offset
	}
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
	if rec.Offset != w.Offset {
		return nil // an earlier record of a letter that a repair has written again
	}
	d.seen[w.ID] = true
	if w.Hold != "" && d.queues[w.Hold][0] != w.ID {
		return nil
	}
	l, err := Decode(rec.Value, rec.Headers)
	if err != nil {
		return fmt.Errorf("read the dead letter %q: %w", w.ID, err)
	}
	delete(d.wanted, w.ID)
	if w.Hold != "" {
		d.queues[w.Hold] = d.queues[w.Hold][1:]
	}
	d.chunk = append(d.chunk, piece{Resolution{Work: *w}, l})
	d.bytes += len(rec.Value)
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
		d.r.asks.outcome(Retry, id, failed)
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
		p.letter.Order, p.letter.Partition, p.letter.Attempts = p.Order, p.Partition, p.Attempts
		if p.Blocked {
			p.letter.Attempts++
			p.letter.Tried = time.Now().UTC()
			if p.letter.Reason == Held { // when it was written; an entry that says so would be published without being asked for
				p.letter.Reason, p.letter.Error = "rejected", "an earlier attempt failed"
			}
		}
		d.r.route(p)
	}
	chunk, err := d.publishable(d.chunk)
	d.chunk, d.bytes = nil, 0
	if err != nil || len(chunk) == 0 {
		return err
	}
	d.tried += len(chunk)
	noted := map[string][]byte{}
	for i := range chunk {
		if p := &chunk[i]; p.Blocked {
			noted[string(EntryKey(p.ID))] = p.letter.Encode()
		}
	}
	// Before they are tried: it shows that this relay still leads, and counts attempts that end it.
	if err := d.r.sink.WriteIndex(d.ctx, noted); err != nil {
		return err
	}
	letters := make([]Resolution, len(chunk))
	for i := range chunk {
		letters[i] = chunk[i].Resolution
	}
	return d.r.resolve(d.ctx, Retry, letters)
}

// leaderPause is how long letters are not tried whose topic has no leader.
const leaderPause = 5 * time.Second

// publishable leaves letters out that are to be dropped, or whose topic has no leader now, and those behind them. Without a leader they
// would hold up all others, and nothing would be known of an attempt that is given up. Behind one that has failed, letters for another topic
// are for the next round: Kafka may take them and refuse that one again.
func (d *round) publishable(chunk []piece) ([]piece, error) {
	var ask []string
	for i := range chunk {
		if m := chunk[i].Message; m != nil {
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
	failed := map[string]string{} // the topic of the last letter that has failed, by what it holds
	return slices.DeleteFunc(chunk, func(p piece) bool {
		m, hold := p.Message, p.Hold
		topic, behind := failed[hold]
		if p.Blocked && m != nil {
			failed[hold] = m.Topic
		}
		switch {
		case hold != "" && d.stuck[hold]:
			return true
		case d.r.asks.want(Drop, p.ID), hold != "" && behind && m != nil && m.Topic != topic: // somebody has asked since the round began
			d.stuck[hold] = true
			return true
		case m == nil || d.leaders[m.Topic] == "":
			return false
		}
		d.stuck[hold] = true
		d.r.later[p.ID] = postponed{time.Now().Add(leaderPause), d.leaders[m.Topic]}
		return true
	}), nil
}
