package router

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

const (
	reasonUnroutable = "unroutable"
	reasonMalformed  = "malformed"
	reasonSkip       = "skip"
)

// fault is why a row makes no record. It is shared between rows and never changed.
type fault struct {
	reason string
	cause  string // goes on after "event ... of ...": "has no topic ..."
	fix    string // "add a route"
}

func noRoute() *fault {
	return &fault{reasonUnroutable, "has no topic: no route matches it and it names none", "add a route"}
}

func emptyVariable(setting, name string) *fault {
	return &fault{
		reasonUnroutable,
		fmt.Sprintf("has no topic: the topic of %s takes ${%s}, which is NULL or empty", setting, name),
		fmt.Sprintf(`add %s: ".+" to the match of that route and another route after it`, name),
	}
}

func badTopic(whose string) *fault {
	return &fault{
		reasonUnroutable,
		fmt.Sprintf("has a bad topic name: %s one that Kafka does not take (1 to %d letters, digits, '.', '_' and '-')",
			whose, maxTopicName),
		"change the route or what is written",
	}
}

func reservedTopic(whose string) *fault {
	return &fault{reasonUnroutable, "has a bad topic: " + whose + " a topic of the relay's own", "change the route or what is written"}
}

func badColumn(column, cause string) *fault {
	return &fault{reasonMalformed, fmt.Sprintf("is malformed: column %s %s", column, cause), "correct what writes it"}
}

// refuse drops the row, makes it a dead letter, or returns the error, as the policy says. id is nil if the row has no readable
// ID.
func (e *encoder) refuse(id []byte, f *fault) error {
	err := e.explain(id, f)
	switch e.policy(f) {
	case cdc.PolicyDrop:
		e.drop(id, f.reason, err)
	case cdc.PolicyDeadLetter:
		e.dst.Refused = append(e.dst.Refused, cdc.Refused{
			Row: int32(e.at), Reason: f.reason, Err: err, EventID: id, Key: e.key(),
			Type: e.readable(outbox.EventType), AggregateType: e.readable(outbox.AggregateType), Tenant: e.readable(outbox.TenantID),
		})
	default:
		return cdc.Stop(cdc.ClassRuntime, f.reason, err, "")
	}
	return nil
}

func (e *encoder) drop(id []byte, reason string, err error) {
	topic, _ := e.topic() // "" if it has none
	e.dst.Drops = append(e.dst.Drops, cdc.Drop{Row: e.at, EventID: string(id), Key: e.key(), Topic: topic, Reason: reason, Err: err})
}

func (e *encoder) policy(f *fault) cdc.Policy {
	if f.reason == reasonMalformed {
		return e.r.malformed
	}
	return e.r.unroutable
}

// key is the record's key as far as it can be read.
func (e *encoder) key() []byte {
	key, f := e.text(&e.p.partitionKey)
	if f == nil && len(key) == 0 {
		key, f = e.text(&e.p.aggregateID)
	}
	if f != nil || len(key) == 0 {
		return nil
	}
	return key
}

// readable is the text of an attribute, nil if it cannot be read.
func (e *encoder) readable(role outbox.Role) []byte {
	for i := range e.p.attributes {
		if a := &e.p.attributes[i]; a.role == role {
			text, _ := e.text(&a.column)
			return text
		}
	}
	return nil
}

// explain returns the error with event, cause and fix. It contains neither payload nor header values.
func (e *encoder) explain(id []byte, f *fault) error {
	if id == nil {
		return cdc.Fixable(fmt.Sprintf("%s and set errors.%s: dead_letter to go past it", f.fix, f.reason),
			"row %d of the transaction committed at %s in %s %s", e.ordinal(), e.time, e.p.source, f.cause)
	}
	return cdc.Fixable(fmt.Sprintf("%s, or go past it with errors.%s: dead_letter or errors.skip: [%q]", f.fix, f.reason, id),
		"event %s of %s%s %s", printable(id), e.p.source, e.aggregate(), f.cause)
}

// aggregate names the row's aggregate in brackets as far as it can be read.
func (e *encoder) aggregate() string {
	typ, err := e.text(&e.p.aggregateType)
	id, err2 := e.text(&e.p.aggregateID)
	if err != nil || err2 != nil || len(typ)+len(id) == 0 {
		return ""
	}
	return fmt.Sprintf(" (aggregate %s %s)", printable(typ), printable(id))
}

// printable shortens a value of an event and keeps it on one line.
func printable(text []byte) string {
	s := fmt.Sprintf("%.100s", text)
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
