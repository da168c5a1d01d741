package router

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const (
	reasonUnroutable = "unroutable"
	reasonBadRow     = "bad_row"
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
	return &fault{reasonUnroutable, "has a bad topic: " + whose + " the relay's own topic of positions", "change the route or what is written"}
}

func badColumn(column, cause string) *fault {
	return &fault{reasonBadRow, fmt.Sprintf("is malformed: column %s %s", column, cause), "correct what writes it"}
}

// refuse drops the row or returns the error, as the policy says. id is nil if the row has no readable ID.
func (e *encoder) refuse(id []byte, f *fault) error {
	err := e.explain(id, f)
	if !e.r.drop {
		return cdc.Stop(cdc.ClassRuntime, f.reason, err, "")
	}
	e.dst.Drops = append(e.dst.Drops, cdc.Drop{Row: e.at, EventID: string(id), Reason: reasonUnroutable, Err: err})
	return nil
}

// explain returns the error with event, cause and fix. It contains neither payload nor header values.
func (e *encoder) explain(id []byte, f *fault) error {
	if id == nil {
		return cdc.Fixable(f.fix+" and set errors.unroutable: drop to go past it",
			"row %d of the transaction committed at %s in %s %s", e.ordinal(), e.time, e.p.source, f.cause)
	}
	return cdc.Fixable(fmt.Sprintf("%s, or go past it with errors.skip: [%q] or errors.unroutable: drop", f.fix, id),
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
