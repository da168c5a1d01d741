package wal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// A batch is handed on when the socket is empty between transactions (so at low load each transaction
// goes at once), and within a transaction when it reaches these bounds, which keep memory flat:
// all of a batch stays in memory until its last row is acknowledged.
const (
	batchRows  = 256
	batchBytes = 64 << 10
)

// transaction is the one whose rows are being read.
type transaction struct {
	commit  lsn   // LSN of the commit record
	micros  int64 // commit time, Unix microseconds
	xid     uint32
	open    bool
	drop    bool   // handed on before: see startPoint.from
	ordinal uint32 // rows seen
	skip    uint32 // of these, the first ones handed on before
	rows    bool   // handed on at least one row, or will
}

// decode takes in every whole frame that was read.
func (ss *session) decode(ctx context.Context) error {
	need := frameHeader
	for {
		have := ss.w - ss.r
		if have < frameHeader {
			break
		}
		head := ss.chunk.buf[ss.r : ss.r+frameHeader]
		size := int(binary.BigEndian.Uint32(head[1:])) + 1
		if size < frameHeader || size > 1<<30+frameHeader {
			return fmt.Errorf("replication stream: frame of %d bytes", size)
		}
		if have < size {
			need = size
			break
		}
		body := ss.r + frameHeader
		ss.r += size
		if err := ss.frame(ctx, head[0], body, size-frameHeader); err != nil {
			return err
		}
	}
	if !ss.tx.open { // inside a transaction the rest is on its way
		if err := ss.flush(ctx); err != nil {
			return err
		}
	}
	return ss.makeRoom(ctx, need)
}

func (ss *session) frame(ctx context.Context, kind byte, off, size int) error {
	body := ss.chunk.buf[off : off+size]
	if kind != frameCopyData {
		return ss.otherFrame(kind, body)
	}
	switch {
	case size > xlogHeader && body[0] == copyXLogData:
		return ss.message(ctx, body[xlogHeader:], off+xlogHeader)
	case size > 0 && body[0] == copyKeepalive:
		k, err := pglogrepl.ParsePrimaryKeepaliveMessage(body[1:])
		if err != nil {
			return fmt.Errorf("replication stream: %w", err)
		}
		return ss.keepalive(ctx, k)
	}
	return fmt.Errorf("replication stream: CopyData of unknown kind %q", body[:min(1, size)])
}

func (ss *session) message(ctx context.Context, m []byte, off int) error {
	switch m[0] {
	case msgInsert:
		return ss.insert(ctx, m, off)
	case msgBegin:
		return ss.begin(m)
	case msgCommit:
		return ss.commit(ctx, m)
	case msgRelation:
		return ss.relation(ctx, m)
	case msgMessage:
		return ss.noted(m)
	case msgType:
		return ss.domain(m)
	case msgUpdate, msgDelete, msgTruncate, msgOrigin:
		return nil // an outbox is append-only: what others do to its rows says nothing new
	}
	return fmt.Errorf("replication stream: pgoutput message of unknown kind %q", m[0])
}

func (ss *session) begin(m []byte) error {
	var b pglogrepl.BeginMessage
	if err := b.Decode(m[1:]); err != nil {
		return fmt.Errorf("replication stream: %w", err)
	}
	ss.goesOn()
	ss.reached = b.FinalLSN
	ss.tx = transaction{commit: b.FinalLSN, micros: b.CommitTime.UnixMicro(), xid: b.Xid, open: true, drop: b.FinalLSN < ss.startAt.from}
	switch due := ss.due; {
	case due.rows == 0 || b.FinalLSN < due.commit:
	case b.FinalLSN == due.commit && b.Xid == due.xid:
		ss.tx.skip, ss.due = due.rows, part{}
	default:
		return otherHistoryPart(due, fmt.Sprintf("transaction %d at %s came first", b.Xid, b.FinalLSN))
	}
	// Rule 5: nothing after the commit that must come again may come before it.
	if ss.startAt.expect != 0 && b.FinalLSN >= ss.startAt.expect {
		return ss.otherHistory(fmt.Sprintf("a transaction at %s came first", b.FinalLSN))
	}
	return nil
}

func (ss *session) commit(ctx context.Context, m []byte) error {
	var c pglogrepl.CommitMessage
	if err := c.Decode(m[1:]); err != nil {
		return fmt.Errorf("replication stream: %w", err)
	}
	tx := &ss.tx
	if !tx.open {
		return errors.New("replication stream: Commit without Begin")
	}
	tx.open = false
	if tx.ordinal < tx.skip {
		return otherHistoryPart(part{tx.commit, tx.xid, tx.skip}, fmt.Sprintf("it has %d rows now", tx.ordinal))
	}
	if c.TransactionEndLSN == ss.startAt.expect && ss.startAt.expect != 0 {
		if tx.xid != ss.startAt.expectXID {
			return ss.otherHistory(fmt.Sprintf("transaction %d ends there", tx.xid))
		}
		ss.startAt.expect = 0
	}
	if tx.drop {
		return nil
	}
	ss.next.resume = c.TransactionEndLSN
	if !tx.rows {
		return nil // nothing of ours: a keepalive will carry the position
	}
	ss.next.lastEnd, ss.next.lastXID = c.TransactionEndLSN, tx.xid
	if ss.batch == nil { // the rows went out before: the position follows in a batch of its own
		return ss.heartbeat(ctx)
	}
	if !ss.batch.fits(int(tx.ordinal)) {
		return ss.flush(ctx)
	}
	return nil
}

// fits says whether a transaction of so many rows like those of b would fit too. A batch should end with a transaction,
// because a stop waits for that.
func (b *pooledBatch) fits(rows int) bool {
	have := b.Rows()
	return have+rows <= batchRows && b.Bytes*(have+rows) <= batchBytes*have
}

// fixOtherHistory drops the position, which would stop the next start too.
const fixOtherHistory = "drop the position with `cdc-relay position reset`, then " + sinceThen

func (ss *session) otherHistory(what string) error {
	return anotherHistory("the checkpoint's last outbox commit (end %s, xid %d) did not come again from the slot, %s", ss.startAt.expect, ss.startAt.expectXID, what)
}

func otherHistoryPart(due part, what string) error {
	return anotherHistory("transaction %d at %s, of which %d rows were published, did not come again from the slot, %s", due.xid, due.commit, due.rows, what)
}

func anotherHistory(format string, args ...any) error {
	return cdc.PositionError("other_history", fixOtherHistory,
		format+": the checkpoint belongs to another history of this database (a backup was restored, or a clone is read)", args...)
}

func (ss *session) insert(ctx context.Context, m []byte, off int) error {
	if len(m) < 5 {
		return fmt.Errorf("decode Insert: %w", errTruncated)
	}
	r := ss.relations[binary.BigEndian.Uint32(m[1:])]
	if r == nil {
		return errors.New("replication stream: Insert without its Relation")
	}
	tx := &ss.tx
	if !r.tracked {
		if !r.other && !tx.drop {
			if err := ss.verifyOther(ctx, binary.BigEndian.Uint32(m[1:]), r); err != nil {
				return err
			}
		}
		r.filtered.Inc()
		return nil
	}
	tx.rows = true
	if tx.drop && ss.next.lastEnd != 0 && tx.commit >= ss.next.lastEnd { // rule 6 of resolve
		return anotherHistory("transaction %d at %s has a row of %s, and by the checkpoint there is no outbox commit between %s and %s", tx.xid, tx.commit, r.table, ss.next.lastEnd, ss.startAt.from)
	}
	if tx.drop || tx.ordinal < tx.skip {
		tx.ordinal++
		r.filtered.Inc()
		return nil
	}
	if !r.compared {
		if err := ss.compareWithCatalog(ctx, r); err != nil {
			return err
		}
	}
	b, err := ss.batchFor(ctx, r)
	if err != nil {
		return err
	}
	if len(b.Txs) == 0 || b.Txs[len(b.Txs)-1].Commit != uint64(tx.commit) {
		b.Txs = append(b.Txs, cdc.Tx{Commit: uint64(tx.commit), Time: tx.micros, Row: b.Rows(), Ordinal: tx.ordinal})
		b.committed = append(b.committed, committed{tx.commit, tx.xid})
	}
	if b.Spans, err = decodeInsert(m, off, r, b.Spans); err != nil {
		if errors.Is(err, errNeedText) {
			ss.src.text = true
		}
		return err
	}
	b.Bytes += len(m)
	tx.ordinal++
	return nil
}

// batchFor returns the batch that takes the next row of r.
func (ss *session) batchFor(ctx context.Context, r *relation) (*pooledBatch, error) {
	if b := ss.batch; b != nil && (b.Table != r.table || b.Rows() >= batchRows || b.Bytes >= batchBytes) {
		if err := ss.flush(ctx); err != nil {
			return nil, err
		}
	}
	if ss.batch == nil {
		ss.batch, ss.received = ss.src.arenas.batch(ss.chunk, r.table), r.received
	}
	return ss.batch, nil
}

// keepalive tells how far the server has read. With no transaction open and everything before it
// handed on, its WAL end is a position to resume from: without it an idle outbox in a busy database
// would keep the server's WAL for ever.
func (ss *session) keepalive(ctx context.Context, k pglogrepl.PrimaryKeepaliveMessage) error {
	now := time.Now()
	if k.ReplyRequested {
		ss.pings.add(k.ServerWALEnd, now)
	} else {
		ss.said.keepalives++
		ss.said.walEnd = k.ServerWALEnd
	}
	if ss.tx.open {
		return nil
	}
	ss.reached = k.ServerWALEnd
	if ss.due.rows > 0 && k.ServerWALEnd > ss.due.commit {
		return otherHistoryPart(ss.due, fmt.Sprintf("the WAL continues at %s", k.ServerWALEnd))
	}
	if ss.startAt.expect != 0 && k.ServerWALEnd >= ss.startAt.expect {
		return ss.otherHistory(fmt.Sprintf("the WAL continues at %s", k.ServerWALEnd))
	}
	if ss.startAt.expect != 0 || k.ServerWALEnd <= ss.next.resume || !k.ReplyRequested && !ss.heartbeatDue(now) {
		return nil
	}
	if err := ss.flush(ctx); err != nil {
		return err
	}
	ss.goesOn()
	ss.next.resume = k.ServerWALEnd
	ss.said.heartbeat = now
	return ss.heartbeat(ctx)
}

// heartbeatDue limits how often a keepalive's position is handed on. While batches are in flight a heartbeat does not
// advance the slot: one after the other they would fill the memory.
func (ss *session) heartbeatDue(now time.Time) bool {
	s := ss.src
	return now.Sub(ss.said.heartbeat) >= tickInterval && s.saved.Load() >= s.handed.Load()
}

// heartbeat hands on a batch without rows that carries ss.next.
func (ss *session) heartbeat(ctx context.Context) error {
	ss.batch = ss.src.arenas.batch(nil, nil)
	return ss.flush(ctx)
}

// flush hands the pending batch on, waiting for room while it serves the connection.
func (ss *session) flush(ctx context.Context) error {
	b := ss.batch
	if b == nil {
		return nil
	}
	// First of all: an attempt that ends while it waits has handed nothing on, and the rows come again.
	if err := ss.waitUntilVisible(ctx, b); err != nil {
		return err
	}
	s := ss.src
	b.Seq = s.handed.Load() + 1
	b.Open = ss.tx.open && !ss.tx.drop && ss.tx.ordinal > 0
	s.arenas.store(b)
	b.Bytes += ss.debt
	ss.debt = 0
	reached := s.handedOn
	reached.reach(ss.next.resume, &ss.tx)
	ss.next.seq, ss.next.part = b.Seq, reached.part
	if h := ss.ended.Load(); h != nil && h.At <= ss.next.resume {
		ss.next.xmin = max(ss.next.xmin, h.XMin)
		ss.ended.Store(nil) // the next one may come
	}
	s.positions.add(ss.next) // before the offer: the batch may be durable before Offer returns
	rows := b.Rows()
	for !ss.out.Offer(&b.Batch) {
		if err := ss.waitForSpace(ctx); err != nil {
			return err
		}
	}
	// Only now: had the attempt failed before, the rows would have to come again.
	ss.batch = nil
	s.handed.Store(b.Seq)
	s.handedOn = reached
	if rows > 0 {
		ss.received.Add(float64(rows))
	}
	return nil
}

// reach notes that everything up to end was handed on, and of tx, if it is open, the rows so far.
func (p *handedOn) reach(end lsn, tx *transaction) {
	switch {
	case tx.open:
		*p = handedOn{end, part{commit: tx.commit, xid: tx.xid, rows: tx.ordinal}}
	case end > p.commit:
		*p = handedOn{end: end}
	default: // a keepalive before what was handed on in part has come again
		p.end = end
	}
}
