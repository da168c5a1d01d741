package outbox

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Row reads the rows of a batch, one after the other; see [Row.Start]. Values point into the batch's arena, or into Scratch; they stay
// valid when Scratch grows.
type Row struct {
	// At is the row's index in the batch, and Ordinal its number in its transaction, from 0.
	At      int
	Ordinal uint32
	// Scratch holds rendered values.
	Scratch []byte
	// Draft is memory for a value that is made of several others; see [Row.Keep].
	Draft []byte

	plan  *Plan
	batch *cdc.Batch
	spans []cdc.Span // its values
	tx    int        // its transaction; -1 before the first row
	next  int        // the first row of the next transaction
	time  []byte     // see CommitTime; nil: not rendered yet
	stamp []byte     // see Sequence: what its transaction's rows share

	documents []read // of the row, by their index in the plan
	checker   reader // of values that are no document of the plan
	texts     [][]byte
}

// read is a document that was read.
type read struct {
	reader

	row int // of which it was read, from 1
	err error
}

// Start goes before the first row of b, whose schema is that of p. Values are rendered into scratch. What else the row needs it keeps from
// batch to batch.
func (r *Row) Start(p *Plan, b *cdc.Batch, scratch []byte) {
	if cap(r.Draft) > maxDraft {
		r.Draft = nil
	}
	*r = Row{
		Scratch: scratch, Draft: r.Draft[:0], plan: p, batch: b, tx: -1, texts: r.texts, checker: r.checker,
		documents: slices.Grow(r.documents[:0], len(p.documents))[:len(p.documents)],
	}
	for i := range r.documents {
		r.documents[i].row = 0
	}
}

// maxDraft is the largest draft that is kept from batch to batch: one huge row must not stay in memory for ever.
const maxDraft = 1 << 20

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
	tx, width := &r.batch.Txs[r.tx], len(r.batch.Table.Columns)
	r.At, r.Ordinal, r.spans = at, tx.Ordinal+uint32(at-tx.Row), r.batch.Spans[at*width:(at+1)*width]
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

// raw returns a column's value as it is in the arena, or false for NULL.
func (r *Row) raw(a *Accessor) ([]byte, bool) {
	s := r.spans[a.number-1]
	if s.Len < 0 {
		return nil, false
	}
	return r.batch.Arena[s.Off : s.Off+s.Len : s.Off+s.Len], true
}

// Text returns a value as valid UTF-8, nil only for NULL.
func (r *Row) Text(a *Accessor) ([]byte, *Fault) {
	if a.kind != kindColumn {
		return r.made(a)
	}
	raw, ok := r.raw(a)
	if !ok {
		return nil, nil
	}
	text := raw
	if !a.plain {
		start := len(r.Scratch)
		grown, err := a.form.AppendShown(r.Scratch, raw, a.zone)
		if err != nil {
			return nil, Bad(a, "cannot be read: "+err.Error())
		}
		if a.padded {
			grown = grown[:start+len(bytes.TrimRight(grown[start:], " "))]
		}
		r.Scratch = grown
		text = r.cut(start)
	}
	if !a.ascii && !ValidText(text) {
		return nil, Bad(a, "is not valid UTF-8")
	}
	if text == nil {
		text = []byte{}
	}
	return text, nil
}

// made returns a value that is no column's.
func (r *Row) made(a *Accessor) ([]byte, *Fault) {
	switch a.kind {
	case kindConst:
		return a.text, nil
	case kindTemplate:
		return r.template(a)
	case kindJSON:
		return r.value(a)
	default:
		return nil, nil
	}
}

func (r *Row) template(a *Accessor) ([]byte, *Fault) {
	r.texts = r.texts[:0]
	for i := range a.pieces {
		text := a.pieces[i].text
		if column := a.pieces[i].column; column != nil {
			var f *Fault
			if text, f = r.Text(column); text == nil {
				return nil, f
			}
		}
		r.texts = append(r.texts, text)
	}
	start := len(r.Scratch)
	for _, text := range r.texts {
		r.Scratch = append(r.Scratch, text...)
	}
	text := r.cut(start)
	if text == nil { // of an empty Scratch
		text = []byte{}
	}
	return text, nil
}

// value returns a value of a document as text.
func (r *Row) value(a *Accessor) ([]byte, *Fault) {
	value, f := r.json(a)
	switch {
	case len(value) == 0:
		return value, f
	case a.key && (value[0] == '{' || value[0] == '['):
		return nil, Bad(a, "is an object or an array, and a key is a text or a number")
	case value[0] != '"':
		return value, nil
	}
	if !bytes.Contains(value, []byte{'\\'}) {
		return value[1 : len(value)-1 : len(value)-1], nil
	}
	start := len(r.Scratch)
	r.Scratch, _ = jsontext.AppendUnquote(r.Scratch, value) // half a surrogate becomes U+FFFD, as in headers
	return r.cut(start), nil
}

// json returns a value of a document as it stands there. The first one that is asked for reads the document.
func (r *Row) json(a *Accessor) ([]byte, *Fault) {
	d := &r.documents[a.document]
	if d.row != r.At+1 {
		d.row = r.At + 1
		r.document(d, &r.plan.documents[a.document])
	}
	if d.err != nil {
		return nil, Bad(a, d.err.Error())
	}
	return d.found[a.path], nil
}

// errNoJSON has no part of the document, which may be secret.
var errNoJSON = errors.New("cannot be read: it is not JSON")

func (r *Row) document(into *read, d *document) {
	text, f := r.Bytes(&d.column)
	switch {
	case f != nil || !ValidText(text):
		into.err = errNoJSON
	case text == nil:
		into.err = nil
		into.none(d)
	default:
		if into.err = into.read(d, text); into.err != nil {
			into.err = errNoJSON
		}
	}
}

// Bytes returns a value as bytes, which a record's value is; nil only for NULL.
func (r *Row) Bytes(a *Accessor) ([]byte, *Fault) {
	if a.kind != kindColumn || a.zone != nil {
		return r.Text(a)
	}
	raw, ok := r.raw(a)
	if !ok {
		return nil, nil
	}
	value, grown, err := a.form.Bytes(r.Scratch, raw)
	if err == nil && a.encoding != "" {
		value, grown, err = decoded(a.encoding, grown, value)
	}
	if err != nil {
		return nil, Bad(a, "cannot be read: "+err.Error())
	}
	r.Scratch = grown
	if value == nil {
		value = []byte{} // an empty payload is no tombstone
	}
	return value, nil
}

// decoded appends the bytes behind an encoding to dst.
func decoded(encoding string, dst, text []byte) (value, grown []byte, err error) {
	start := len(dst)
	if encoding == Hex {
		grown, err = hex.AppendDecode(dst, text)
	} else {
		grown, err = base64.StdEncoding.AppendDecode(dst, text)
	}
	if err != nil {
		return nil, dst, fmt.Errorf("it is not %s", encoding)
	}
	return grown[start:len(grown):len(grown)], grown, nil
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
