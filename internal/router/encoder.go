package router

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// encoder makes the records of one batch.
type encoder struct {
	r   *Router
	p   *plan
	b   *cdc.Batch
	dst *cdc.Routed

	at    int        // the row
	spans []cdc.Span // its values
	tx    int        // its transaction; -1 before the first row
	next  int        // the first row of the next transaction
	time  []byte     // ce_committime
	stamp []byte     // ce_sequence up to the ordinal; nil where the commit has no number
}

// row appends the row's message, refusal or drop.
func (e *encoder) row(at int) error {
	e.at, e.spans = at, e.b.Spans[at*e.p.width:(at+1)*e.p.width]
	for at >= e.next {
		e.transaction()
	}
	id, f := e.text(&e.p.eventID)
	switch {
	case e.p.incomplete != nil && !e.p.eventID.exists():
		id, f = nil, e.p.incomplete
	case f == nil && len(id) == 0:
		id, f = nil, badColumn(e.p.eventID.name, "is empty")
	}
	if f != nil {
		return e.refuse(nil, f)
	}
	if len(e.r.skip) > 0 {
		if _, ok := e.r.skip[string(id)]; ok {
			e.drop(id, reasonSkip, nil)
			return nil
		}
	}
	if e.p.incomplete != nil {
		return e.refuse(id, e.p.incomplete)
	}
	first := len(e.dst.Headers)
	if f := e.message(id); f != nil {
		clear(e.dst.Headers[first:])
		e.dst.Headers = e.dst.Headers[:first]
		return e.refuse(id, f)
	}
	return nil
}

// raw returns a value as it is in the arena, or false for NULL or an absent column.
func (e *encoder) raw(c *column) ([]byte, bool) {
	if !c.exists() {
		return nil, false
	}
	s := e.spans[c.number-1]
	if s.Len < 0 {
		return nil, false
	}
	return e.b.Arena[s.Off : s.Off+s.Len : s.Off+s.Len], true
}

// text returns a value as valid UTF-8, nil only for NULL or an absent column.
func (e *encoder) text(c *column) ([]byte, *fault) {
	raw, ok := e.raw(c)
	if !ok {
		if c.notNull {
			return nil, badColumn(c.name, "is NULL")
		}
		return nil, nil
	}
	text := raw
	if c.form != cdc.FormText && c.form != cdc.FormBytes {
		start := len(e.dst.Scratch)
		grown, err := c.form.AppendText(e.dst.Scratch, raw)
		if err != nil {
			return nil, badColumn(c.name, "cannot be read: "+err.Error())
		}
		e.dst.Scratch = grown
		text = grown[start:len(grown):len(grown)]
	}
	if !c.ascii && !validText(text) {
		return nil, badColumn(c.name, "is not valid UTF-8")
	}
	if text == nil {
		text = []byte{}
	}
	return text, nil
}

// validText is utf8.Valid, at a third of the cost for short ASCII, which nearly all columns have.
func validText(text []byte) bool {
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
