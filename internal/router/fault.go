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

// withoutColumn is the fault of rows that lack a column which their table has now. If it has lost one of theirs, the column may have
// been renamed, and then the value is there: no policy may drop such a row or make a letter of it.
func withoutColumn(name string, t *cdc.Table) *fault {
	var lost []string
	for i := range t.Columns {
		if t.Now.Index(t.Columns[i].Name) < 0 {
			lost = append(lost, t.Columns[i].Name)
		}
	}
	if lost == nil {
		return &fault{
			reasonMalformed, "is malformed: it was logged without column " + name + ", which the table has now",
			"run the relay with its former configuration until it has published such rows, if that does not need the column",
		}
	}
	was := strings.Join(lost, ", ")
	return &fault{
		cdc.MissingColumn,
		fmt.Sprintf("was written when the table had no column %s, but %s, which it does not have now", name, was),
		fmt.Sprintf("if %s was renamed, rename it back, run the relay with its former configuration until it stops at the first row with "+
			"the new name, then rename the column again and change the configuration", was),
	}
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
		class := cdc.ClassRuntime
		if f.reason == cdc.MissingColumn {
			class = cdc.ClassConfig
		}
		return cdc.Stop(class, f.reason, err, "")
	}
	return nil
}

func (e *encoder) drop(id []byte, reason string, err error) {
	topic, _ := e.topic() // "" if it has none
	e.dst.Drops = append(e.dst.Drops, cdc.Drop{Row: e.at, EventID: string(id), Key: e.key(), Topic: topic, Reason: reason, Err: err})
}

func (e *encoder) policy(f *fault) cdc.Policy {
	switch f.reason {
	case reasonMalformed:
		return e.r.malformed
	case cdc.MissingColumn:
		return cdc.PolicyStop
	default:
		return e.r.unroutable
	}
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
	event := fmt.Sprintf("row %d of transaction %s, committed at %s, in %s", e.ordinal(), e.name(), e.time, e.p.source)
	if id != nil {
		event = fmt.Sprintf("event %s of %s%s", printable(id), e.p.source, e.aggregate())
	}
	fix := f.fix
	switch {
	case f.reason == cdc.MissingColumn && id == nil:
	case f.reason == cdc.MissingColumn:
		fix += fmt.Sprintf("; if it was not, go past the event with errors.skip: [%q]", id)
	case id == nil && f == e.p.incomplete: // its fix suffices
		fix += ", or set errors.malformed: dead_letter to go past it"
	case id == nil:
		fix += fmt.Sprintf(" and set errors.%s: dead_letter to go past it", f.reason)
	default:
		both := "or"
		if f.reason == reasonMalformed && f != e.p.incomplete { // the row stays as it is
			both = "and"
		}
		fix += fmt.Sprintf(", %s go past it with errors.%s: dead_letter or errors.skip: [%q]", both, f.reason, id)
	}
	return cdc.Fixable(fix, "%s %s", event, f.cause)
}

// name is the LSN or the GTID of the row's transaction.
func (e *encoder) name() string {
	if gtid := e.b.NameOf(e.at); gtid != "" {
		return gtid
	}
	commit := e.b.Txs[e.tx].Commit
	return fmt.Sprintf("%X/%X", commit>>32, uint32(commit))
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
