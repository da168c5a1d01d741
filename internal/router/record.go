package router

import (
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// attributeHeader says which header carries a column.
type attributeHeader struct {
	role   outbox.Role
	header string
}

// attributes lists the headers that are one column's text, in the order of the record.
func attributes() []attributeHeader {
	return []attributeHeader{
		{outbox.EventType, "ce_type"},
		{outbox.AggregateID, "ce_subject"},
		{outbox.OccurredAt, "ce_time"},
		{outbox.ContentType, outbox.HeaderContentType},
		{outbox.AggregateType, "ce_aggregatetype"},
		{outbox.TenantID, "ce_tenant"},
		{outbox.SchemaID, "ce_dataschema"},
		{outbox.SchemaVersion, "ce_dataschemaversion"},
	}
}

// message appends the row's message.
func (e *encoder) message(id []byte) *fault {
	name, f := e.topic()
	if f != nil {
		return f
	}
	first := len(e.dst.Headers)
	k := &e.r.keys
	e.dst.Headers = append(e.dst.Headers, // the ID first: see cdc.Message.ID
		cdc.Header{Key: k.id, Value: id},
		cdc.Header{Key: k.specVersion, Value: k.specVersionValue},
		cdc.Header{Key: k.source, Value: e.p.table.source})
	key, f := e.columns()
	if f != nil {
		return f
	}
	e.position()
	if f := e.userHeaders(); f != nil {
		return f
	}
	value, f := e.value()
	if f != nil {
		return f
	}
	e.dst.Headers = append(e.dst.Headers, e.r.added...)
	headers := e.dst.Headers[first:len(e.dst.Headers):len(e.dst.Headers)]
	e.dst.Messages = append(e.dst.Messages,
		cdc.Message{Topic: name, Key: key, Value: value, Headers: headers, Row: int32(e.at)})
	return nil
}

// columns appends the headers that are columns, and returns the record's key.
func (e *encoder) columns() ([]byte, *fault) {
	key, f := e.text(&e.p.partitionKey)
	if f != nil {
		return nil, f
	}
	headers := e.dst.Headers
	for i := range e.p.attributes {
		a := &e.p.attributes[i]
		text, f := e.text(&a.column)
		if f == nil {
			f = a.check(text)
		}
		if f != nil {
			return nil, f
		}
		if a.role == outbox.AggregateID && len(key) == 0 {
			key = text
		}
		if len(text) > 0 {
			headers = append(headers, cdc.Header{Key: a.header, Value: text})
		}
	}
	e.dst.Headers = headers
	if len(key) == 0 {
		return nil, nil
	}
	return key, nil
}

// check returns a fault if text is not a valid value of the attribute.
func (a *attribute) check(text []byte) *fault {
	switch {
	case a.role == outbox.EventType && len(text) == 0:
		return badColumn(a.name, "is empty")
	case a.role == outbox.OccurredAt && text != nil && !isRFC3339(text, a.form):
		return badColumn(a.name, "is not a time of the years 0 to 9999")
	default:
		return nil
	}
}

// isRFC3339 is false for infinity, years BC and years of five digits, which RFC 3339 cannot express. A text column is
// parsed, because it may have any text; for a timestamp the shape is enough.
func isRFC3339(text []byte, f cdc.Form) bool {
	if f == cdc.FormText {
		_, err := time.Parse(time.RFC3339, string(text))
		return err == nil
	}
	return len(text) >= len("2006-01-02T15:04:05Z") && text[0] >= '0' && text[0] <= '9' &&
		text[4] == '-' && text[7] == '-' && text[10] == 'T'
}

// value returns the payload's bytes; nil is a tombstone.
func (e *encoder) value() ([]byte, *fault) {
	raw, ok := e.raw(&e.p.payload)
	if !ok {
		if !e.p.tombstones {
			return nil, badColumn(e.p.payload.name, "is NULL")
		}
		return nil, nil
	}
	value, grown, err := e.p.payload.form.Bytes(e.dst.Scratch, raw)
	if err != nil {
		return nil, badColumn(e.p.payload.name, "cannot be read: "+err.Error())
	}
	e.dst.Scratch = grown
	if value == nil {
		value = []byte{} // an empty payload is not a tombstone
	}
	return value, nil
}

// transaction moves to the next transaction and renders the values that its records share.
func (e *encoder) transaction() {
	e.tx++
	e.next = e.b.Rows()
	if e.tx+1 < len(e.b.Txs) {
		e.next = e.b.Txs[e.tx+1].Row
	}
	tx := &e.b.Txs[e.tx]
	start := len(e.dst.Scratch)
	s := cdc.AppendMicros(e.dst.Scratch, tx.Time)
	e.time = s[start:len(s):len(s)]
	e.stamp = nil
	if tx.Commit != 0 {
		var commit [8]byte
		binary.BigEndian.PutUint64(commit[:], tx.Commit)
		start = len(s)
		s = append(hex.AppendEncode(s, commit[:]), '-')
		e.stamp = s[start:len(s):len(s)]
	}
	e.dst.Scratch = s
}

// position appends ce_sequence and ce_committime.
func (e *encoder) position() {
	if e.stamp != nil {
		var ordinal [4]byte
		binary.BigEndian.PutUint32(ordinal[:], e.ordinal())
		start := len(e.dst.Scratch)
		s := hex.AppendEncode(append(e.dst.Scratch, e.stamp...), ordinal[:])
		e.dst.Scratch = s
		e.dst.Headers = append(e.dst.Headers, cdc.Header{Key: e.r.keys.sequence, Value: s[start:len(s):len(s)]})
	}
	e.dst.Headers = append(e.dst.Headers, cdc.Header{Key: e.r.keys.commitTime, Value: e.time})
}

// ordinal is the row's number in its transaction, from 0.
func (e *encoder) ordinal() uint32 {
	tx := &e.b.Txs[e.tx]
	return tx.Ordinal + uint32(e.at-tx.Row)
}
