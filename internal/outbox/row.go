package outbox

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"unicode/utf8"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Row reads the rows of a batch, one after the other. Values point into the batch's arena, or into Scratch; they stay valid when Scratch
// grows.
type Row struct {
	// At is the row's index in the batch, and Ordinal its number in its transaction, from 0.
	At      int
	Ordinal uint32
	// Scratch holds rendered values.
	Scratch []byte

	batch *cdc.Batch
	width int        // columns of a row
	spans []cdc.Span // its values
	tx    int        // its transaction; -1 before the first row
	next  int        // the first row of the next transaction
	time  []byte     // see CommitTime; nil: not rendered yet
	stamp []byte     // see Sequence: what its transaction's rows share
}

// Rows returns a reader of b, which is before its first row. It renders into scratch.
func Rows(b *cdc.Batch, scratch []byte) Row {
	return Row{Scratch: scratch, batch: b, width: len(b.Table.Columns), tx: -1}
}

// Move goes on to a row, at or behind the last one.
func (r *Row) Move(at int) {
	for at >= r.next {
		r.tx++
		r.time, r.stamp = nil, nil
		r.next = r.batch.Rows()
		if r.tx+1 < len(r.batch.Txs) {
			r.next = r.batch.Txs[r.tx+1].Row
		}
	}
	tx := &r.batch.Txs[r.tx]
	r.At, r.Ordinal, r.spans = at, tx.Ordinal+uint32(at-tx.Row), r.batch.Spans[at*r.width:(at+1)*r.width]
}

// Tx returns the row's transaction.
func (r *Row) Tx() *cdc.Tx { return &r.batch.Txs[r.tx] }

// TxName is the LSN or the GTID of the row's transaction, for error messages.
func (r *Row) TxName() string {
	if gtid := r.batch.NameOf(r.At); gtid != "" {
		return gtid
	}
	commit := r.Tx().Commit
	return fmt.Sprintf("%X/%X", commit>>32, uint32(commit))
}

// CommitTime is when the row's transaction committed, in RFC 3339.
func (r *Row) CommitTime() []byte {
	if r.time == nil {
		start := len(r.Scratch)
		r.Scratch = cdc.AppendMicros(r.Scratch, r.Tx().Time)
		r.time = r.cut(start)
	}
	return r.time
}

// Sequence is a text that sorts in commit order: 16 hex digits of [cdc.Tx.Commit], "-", 8 of Ordinal. It is nil where commits have no
// number.
func (r *Row) Sequence() []byte {
	tx := r.Tx()
	if tx.Commit == 0 {
		return nil
	}
	start := len(r.Scratch)
	if r.stamp == nil {
		var commit [8]byte
		binary.BigEndian.PutUint64(commit[:], tx.Commit)
		r.Scratch = append(hex.AppendEncode(r.Scratch, commit[:]), '-')
		r.stamp = r.cut(start)
	} else {
		r.Scratch = append(r.Scratch, r.stamp...)
	}
	var ordinal [4]byte
	binary.BigEndian.PutUint32(ordinal[:], r.Ordinal)
	r.Scratch = hex.AppendEncode(r.Scratch, ordinal[:])
	return r.cut(start)
}

// cut returns what was rendered from start on.
func (r *Row) cut(start int) []byte { return r.Scratch[start:len(r.Scratch):len(r.Scratch)] }

// Raw returns a value as it is in the arena, or false for NULL or an absent column.
func (r *Row) Raw(a *Accessor) ([]byte, bool) {
	if !a.Exists() {
		return nil, false
	}
	s := r.spans[a.number-1]
	if s.Len < 0 {
		return nil, false
	}
	return r.batch.Arena[s.Off : s.Off+s.Len : s.Off+s.Len], true
}

// Text returns a value as valid UTF-8, nil only for NULL or an absent column.
func (r *Row) Text(a *Accessor) ([]byte, *Fault) {
	raw, ok := r.Raw(a)
	if !ok {
		return nil, nil
	}
	text := raw
	if a.form != cdc.FormText && a.form != cdc.FormBytes {
		start := len(r.Scratch)
		grown, err := a.form.AppendText(r.Scratch, raw)
		if err != nil {
			return nil, BadColumn(a.Column, "cannot be read: "+err.Error())
		}
		r.Scratch = grown
		text = r.cut(start)
	}
	if !a.ascii && !ValidText(text) {
		return nil, BadColumn(a.Column, "is not valid UTF-8")
	}
	if text == nil {
		text = []byte{}
	}
	return text, nil
}

// Bytes returns a value as bytes, which a record's value is; nil only for NULL or an absent column.
func (r *Row) Bytes(a *Accessor) ([]byte, *Fault) {
	raw, ok := r.Raw(a)
	if !ok {
		return nil, nil
	}
	value, grown, err := a.form.Bytes(r.Scratch, raw)
	if err != nil {
		return nil, BadColumn(a.Column, "cannot be read: "+err.Error())
	}
	r.Scratch = grown
	if value == nil {
		value = []byte{} // an empty payload is no tombstone
	}
	return value, nil
}

// ValidText is utf8.Valid, at a third of the cost for short ASCII, which nearly all columns have.
func ValidText(text []byte) bool {
	rest := text
	for ; len(rest) >= 8; rest = rest[8:] {
		if binary.LittleEndian.Uint64(rest)&(0x80*ones) != 0 {
			return utf8.Valid(text)
		}
	}
	var all byte
	for _, c := range rest {
		all |= c
	}
	return all < utf8.RuneSelf || utf8.Valid(text)
}

// ones times a byte is that byte eight times.
const ones = 0x0101010101010101
