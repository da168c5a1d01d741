package wal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// Message kinds of the streaming replication protocol and of pgoutput's proto_version 1.
// Source: PostgreSQL documentation, "Logical Replication Message Formats".
const (
	frameCopyData = 'd'
	frameHeader   = 5 // kind, int32 length that counts itself

	copyXLogData  = 'w'
	copyKeepalive = 'k'
	xlogHeader    = 25 // 'w', start, end, clock
	keepaliveSize = 18 // 'k', WAL end, clock, reply requested

	msgBegin    = 'B'
	msgCommit   = 'C'
	msgRelation = 'R'
	msgInsert   = 'I'
	msgUpdate   = 'U'
	msgDelete   = 'D'
	msgTruncate = 'T'
	msgType     = 'Y'
	msgOrigin   = 'O'
	msgMessage  = 'M'
)

var (
	errTruncated = errors.New("truncated message")
	// errNeedText says that a needed column's type has no binary form that is known here: the stream must be
	// asked for in text.
	errNeedText = errors.New("a column needs text mode")
)

type begin struct {
	commit lsn   // LSN of the commit record
	micros int64 // commit time, Unix microseconds
	xid    uint32
}

type commit struct{ at, end lsn }

type keepalive struct {
	walEnd lsn
	reply  bool
}

// relation is a table as the stream describes it.
type relation struct {
	table *cdc.Table
	types []uint32 // type OIDs, by column
	// kind is the format byte that every value of this stream must have: 'b' or 't'.
	kind byte
	// tracked says whether the table is one of ours; rows of others are not decoded.
	tracked bool
	// other is set once the catalog has said that the table is none of ours; see verifyOther.
	other bool
	// compared is set once its rows are known to have every column that is needed, or the catalog was read because they lack one; see
	// compareWithCatalog.
	compared bool
	// received and filtered count its rows.
	received, filtered prometheus.Counter
}

func decodeBegin(m []byte) (begin, error) {
	if len(m) < 21 {
		return begin{}, fmt.Errorf("decode Begin: %w", errTruncated)
	}
	return begin{
		commit: lsn(binary.BigEndian.Uint64(m[1:])),
		micros: int64(binary.BigEndian.Uint64(m[9:])) + postgres.EpochMicros,
		xid:    binary.BigEndian.Uint32(m[17:]),
	}, nil
}

func decodeCommit(m []byte) (commit, error) {
	if len(m) < 26 {
		return commit{}, fmt.Errorf("decode Commit: %w", errTruncated)
	}
	return commit{at: lsn(binary.BigEndian.Uint64(m[2:])), end: lsn(binary.BigEndian.Uint64(m[10:]))}, nil
}

func decodeKeepalive(m []byte) (keepalive, error) {
	if len(m) < keepaliveSize {
		return keepalive{}, fmt.Errorf("decode keepalive: %w", errTruncated)
	}
	return keepalive{walEnd: lsn(binary.BigEndian.Uint64(m[1:])), reply: m[17] != 0}, nil
}

// decodeRelation reads a Relation message. The caller decides whether the table is tracked.
func decodeRelation(m []byte, types postgres.Types, binaryMode bool) (id uint32, r *relation, err error) {
	rd := reader{buf: m, off: 1}
	id = rd.uint32()
	t := &cdc.Table{Schema: rd.cstring(), Name: rd.cstring()}
	rd.skip(1) // replica identity
	n := int(rd.uint16())
	r = &relation{table: t, kind: 't'}
	if binaryMode {
		r.kind = 'b'
	}
	for range n {
		rd.skip(1) // flags: part of the key
		name, oid := rd.cstring(), rd.uint32()
		rd.skip(4) // type modifier
		if rd.err != nil {
			break
		}
		t.Columns = append(t.Columns, types.Column(name, oid, binaryMode))
		r.types = append(r.types, oid)
	}
	if rd.err != nil {
		return 0, nil, fmt.Errorf("decode Relation: %w", rd.err)
	}
	return id, r, nil
}

// decodeInsert appends the places of one row's values to spans. base is the offset of m in the arena.
// The new tuple of an INSERT holds every column of the relation.
func decodeInsert(m []byte, base int, r *relation, spans []cdc.Span) ([]cdc.Span, error) {
	if len(m) < 8 || m[5] != 'N' {
		return spans, fmt.Errorf("decode Insert: %w", errTruncated)
	}
	n, off := int(binary.BigEndian.Uint16(m[6:])), 8
	if n != len(r.table.Columns) {
		return spans, fmt.Errorf("an Insert into %s has %d columns, its Relation message %d", r.table, n, len(r.table.Columns))
	}
	for i := range n {
		if off >= len(m) {
			return spans, fmt.Errorf("decode Insert: %w", errTruncated)
		}
		kind := m[off]
		off++
		if kind == 'n' {
			spans = append(spans, cdc.Span{Len: -1})
			continue
		}
		if kind != r.kind && (kind != 't' || r.table.Columns[i].Form != cdc.FormOpaque) { // a type without binary output comes as text
			return spans, valueKindError(kind, r)
		}
		if off+4 > len(m) {
			return spans, fmt.Errorf("decode Insert: %w", errTruncated)
		}
		size := int(int32(binary.BigEndian.Uint32(m[off:])))
		off += 4
		if size < 0 || off+size > len(m) {
			return spans, fmt.Errorf("decode Insert: %w", errTruncated)
		}
		spans = append(spans, cdc.Span{Off: int32(base + off), Len: int32(size)})
		off += size
	}
	return spans, nil
}

func valueKindError(kind byte, r *relation) error {
	if kind == 'u' {
		return cdc.Fixable("report this to the server's vendor", "an INSERT into %s has an unchanged TOAST value, which only an UPDATE can have", r.table)
	}
	if kind == 't' && r.kind == 'b' {
		return errNeedText
	}
	return fmt.Errorf("value of kind %q in a stream of kind %q", kind, r.kind)
}

// reader walks a message; its first error sticks.
type reader struct {
	buf []byte
	off int
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || r.off+n > len(r.buf) {
		r.err = errTruncated
		return make([]byte, 8)
	}
	b := r.buf[r.off : r.off+n]
	r.off += n
	return b
}

func (r *reader) skip(n int)     { r.take(n) }
func (r *reader) uint16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) uint32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }

func (r *reader) cstring() string {
	if r.err != nil {
		return ""
	}
	for i := r.off; i < len(r.buf); i++ {
		if r.buf[i] == 0 {
			s := string(r.buf[r.off:i])
			r.off = i + 1
			return s
		}
	}
	r.err = errTruncated
	return ""
}
