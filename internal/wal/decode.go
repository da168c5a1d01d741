package wal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jackc/pglogrepl"
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

// decoded is m's Decode for messages that it reads past the end of if they were cut.
func decoded(m pglogrepl.MessageDecoder, src []byte) (err error) {
	defer func() {
		if recover() != nil {
			err = errTruncated
		}
		if err != nil {
			err = fmt.Errorf("replication stream: %w", err)
		}
	}()
	return m.Decode(src[1:len(src):len(src)])
}

// decodeRelation reads a Relation message. The caller decides whether the table is tracked.
func decodeRelation(src []byte, types postgres.Types, binaryMode bool) (id uint32, r *relation, err error) {
	var m pglogrepl.RelationMessage
	if err := decoded(&m, src); err != nil {
		return 0, nil, err
	}
	t := &cdc.Table{Schema: m.Namespace, Name: m.RelationName}
	r = &relation{table: t, kind: 't'}
	if binaryMode {
		r.kind = 'b'
	}
	for _, c := range m.Columns {
		t.Columns = append(t.Columns, types.Column(c.Name, c.DataType, binaryMode))
		r.types = append(r.types, c.DataType)
	}
	return m.RelationID, r, nil
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
