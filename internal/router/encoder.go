package router

import (
	"cmp"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// encoder makes the messages of one batch.
type encoder struct {
	r     *Router
	p     *plan
	row   outbox.Row
	dst   *cdc.Routed
	slots [][]byte // what routes read of the row; nil is NULL
	key   []byte   // see routeKey
}

// encode appends the row's message, refusal or drop, or leaves it out.
func (e *encoder) encode(at int) error {
	e.row.Move(at)
	out, unreadable := e.leftOut()
	if out {
		e.dst.LeftOut++
		return nil
	}
	id, f := e.id()
	if f != nil {
		return e.refuse(nil, f)
	}
	if len(e.r.skip) > 0 {
		if _, ok := e.r.skip[string(id)]; ok {
			e.drop(id, reasonSkip, nil)
			return nil
		}
	}
	if f := cmp.Or(unreadable, e.p.Incomplete); f != nil {
		return e.refuse(id, f)
	}
	first := len(e.dst.Headers)
	if f := e.message(id); f != nil {
		clear(e.dst.Headers[first:])
		e.dst.Headers = e.dst.Headers[:first]
		return e.refuse(id, f)
	}
	return nil
}

// id returns the event's ID.
func (e *encoder) id() ([]byte, *outbox.Fault) {
	part := &e.p.Parts[outbox.EventID]
	if e.p.Incomplete != nil && !part.Exists() {
		return nil, e.p.Incomplete
	}
	id, f := e.row.Text(part)
	switch {
	case f != nil:
		return nil, f
	case id == nil:
		return nil, outbox.Bad(part, "is NULL")
	case len(id) == part.Fixed():
		return nil, outbox.Bad(part, "is empty")
	default:
		return id, nil
	}
}

// message appends the row's message.
func (e *encoder) message(id []byte) *outbox.Fault {
	m := cdc.Message{ID: id, Row: int32(e.row.At)}
	to := e.topic()
	if to.fault != nil {
		return to.fault
	}
	m.Topic = to.name
	var f *outbox.Fault
	if m.Key, f = e.recordKey(to.at); f != nil {
		return f
	}
	if m.Partition, f = e.partition(to.at); f != nil {
		return f
	}
	first := len(e.dst.Headers)
	if m.Value, e.dst.Headers, f = e.p.record.Encode(&e.row, id, e.dst.Headers); f != nil {
		return f
	}
	e.dst.Headers = append(e.dst.Headers, e.r.added...)
	m.Headers = e.dst.Headers[first:len(e.dst.Headers):len(e.dst.Headers)]
	e.dst.Messages = append(e.dst.Messages, m)
	return nil
}
