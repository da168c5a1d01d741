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
	reasonSkip       = "skip"
)

func unroutable(fix, format string, args ...any) *outbox.Fault {
	return &outbox.Fault{Reason: reasonUnroutable, Cause: fmt.Sprintf(format, args...), Fix: fix}
}

func noRoute() *outbox.Fault {
	return unroutable("add a route", "has no topic: no route matches it and it names none")
}

func emptyVariable(setting, name string) *outbox.Fault {
	return unroutable(fmt.Sprintf(`add %s: ".+" to the match of that route and another route after it`, name),
		"has no topic: the topic of %s takes ${%s}, which is NULL or empty", setting, name)
}

const (
	fixRoute  = "change the route or what is written"
	fixColumn = "correct what writes it, or take topic out of columns of the table and add a route"
)

func badTopic(whose, fix string) *outbox.Fault {
	return unroutable(fix, "has a bad topic name: %s one that Kafka does not take (1 to %d letters, digits, '.', '_' and '-')", whose, maxTopicName)
}

func reservedTopic(whose, fix string) *outbox.Fault {
	return unroutable(fix, "has a bad topic: %s a topic of the relay's own", whose)
}

// refuse drops the row, makes it a dead letter, or returns the error, as the policy says. id is nil if the row has no readable
// ID.
func (e *encoder) refuse(id []byte, f *outbox.Fault) error {
	err := e.explain(id, f)
	switch e.policy(f) {
	case cdc.PolicyDrop:
		e.drop(id, f.Reason, err)
	case cdc.PolicyDeadLetter:
		key, _ := e.recordKey(e.topic().at)
		e.dst.Refused = append(e.dst.Refused, cdc.Refused{Row: int32(e.row.At), Reason: f.Reason, Err: err, EventID: id, Key: key})
	default:
		class := cdc.ClassRuntime
		if f.Reason == cdc.MissingColumn {
			class = cdc.ClassConfig
		}
		return cdc.Stop(class, f.Reason, err, "")
	}
	return nil
}

func (e *encoder) drop(id []byte, reason string, err error) {
	to := e.topic()
	key, _ := e.recordKey(to.at)
	e.dst.Drops = append(e.dst.Drops, cdc.Drop{Row: e.row.At, EventID: string(id), Key: key, Topic: to.name, Reason: reason, Err: err})
}

func (e *encoder) policy(f *outbox.Fault) cdc.Policy {
	switch f.Reason {
	case outbox.Malformed:
		return e.r.policies.Malformed
	case cdc.MissingColumn:
		return cdc.PolicyStop
	default:
		return e.r.policies.Unroutable
	}
}

// explain returns the error with event, cause and fix. It contains neither payload nor header values.
func (e *encoder) explain(id []byte, f *outbox.Fault) error {
	event := fmt.Sprintf("row %d of transaction %s, committed at %s, in %s", e.row.Ordinal, e.row.TxName(), e.row.CommitTime(), e.p.Table)
	switch {
	case id != nil:
		event = fmt.Sprintf("event %s of %s%s", printable(id), e.p.Table, e.aggregate())
	case e.row.TxName() == "0/0": // it was read by SQL, and its number is made of its text
		event = fmt.Sprintf("a row of %s, created at %s,", e.p.Table, e.row.CommitTime())
	}
	fix, unnamed := f.Fix, id == nil || len(id) > 256
	skip := strings.ReplaceAll(fmt.Sprintf("errors.skip: [%q]", id), "`", `\x60`) // what stands in backquotes is taken for a command
	switch {
	case f.Reason == cdc.MissingColumn && unnamed:
	case f.Reason == cdc.MissingColumn:
		fix += "; if it was not, go past the event with " + skip
	case unnamed && f == e.p.Incomplete: // its fix suffices
		fix += ", or set errors.malformed: dead_letter to go past it"
	case unnamed:
		fix += fmt.Sprintf(" and set errors.%s: dead_letter to go past it", f.Reason)
	default:
		both := "or"
		if f.Reason == outbox.Malformed && f != e.p.Incomplete { // the row stays as it is
			both = "and"
		}
		fix += fmt.Sprintf(", %s go past it with errors.%s: dead_letter or %s", both, f.Reason, skip)
	}
	return cdc.Fixable(fix, "%s %s", event, f.Cause)
}

// aggregate names the row's aggregate in brackets as far as it can be read.
func (e *encoder) aggregate() string {
	typ, f := e.row.Text(&e.p.Parts[outbox.AggregateType])
	id, f2 := e.row.Text(&e.p.Parts[outbox.AggregateID])
	missing := typ == nil && e.p.Required[outbox.AggregateType] || id == nil && e.p.Required[outbox.AggregateID]
	if f != nil || f2 != nil || missing || len(typ)+len(id) == 0 {
		return ""
	}
	return fmt.Sprintf(" (aggregate %s)", strings.TrimSpace(printable(typ)+" "+printable(id)))
}

// printable shortens a value of an event and keeps it on one line.
func printable(text []byte) string {
	s := fmt.Sprintf("%.100s", text)
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
