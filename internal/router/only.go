package router

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// only is one of the conditions of a table: an expression that must match the whole of a value.
type only struct {
	name string // as Table.Only calls it
	re   *regexp.Regexp
}

// condition is an only of a schema.
type condition struct {
	outbox.Accessor

	re *regexp.Regexp
	// last is a value that was compared, and matched the result. A status is mostly the same from row to row, and to match one takes a
	// third of the time in which the row is routed.
	last              []byte
	compared, matched bool
}

// maxLast limits the memory that last holds.
const maxLast = 128

func (c *condition) matches(text []byte) bool {
	if len(text) > maxLast {
		return c.re.Match(text)
	}
	if !c.compared || !bytes.Equal(c.last, text) {
		c.last, c.compared, c.matched = append(c.last[:0], text...), true, c.re.Match(text)
	}
	return c.matched
}

func newOnly(expressions map[string]string) (list []only) {
	for _, name := range slices.Sorted(maps.Keys(expressions)) {
		re, _ := outbox.FullMatch(expressions[name]) // valid by now
		list = append(list, only{name, re})
	}
	return list
}

// findConditions finds what a table's conditions read. A column that is missing stops the relay, however many tables there are: without
// its value nothing says which rows to leave out. Rows that were written before it was added are incomplete.
func (p *plan) findConditions(conf *table) error {
	for _, o := range conf.only {
		a, missing, err := p.Accessor(conf.part(o.name))
		switch {
		case err != nil:
			return err
		case missing != "" && p.Added(missing):
			p.only = nil
			return nil
		case missing != "":
			return cdc.Stop(cdc.ClassConfig, cdc.MissingColumn, fmt.Errorf("%s.only.%s: %s has no column %s", conf.setting, o.name, p.Table, missing),
				"add it to the table, or change "+conf.setting+".only")
		}
		p.only = append(p.only, condition{Accessor: a, re: o.re})
	}
	return nil
}

// leftOut reports whether a condition of the table does not match the row; NULL matches none.
func (e *encoder) leftOut() (bool, *outbox.Fault) {
	for i := range e.p.only {
		c := &e.p.only[i]
		text, f := e.row.Text(&c.Accessor)
		if f != nil {
			return false, f
		}
		if text == nil || !c.matches(text) {
			return true, nil
		}
	}
	return false, nil
}
