package outbox

import (
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Plan is a [Layout] applied to the schema of a table: where each part of an event stands in its rows. It is immutable.
type Plan struct {
	// Table is the schema.
	Table *cdc.Table
	// Parts is how each part is read, by role.
	Parts [Roles]Accessor
	// Required reports, by role, whether a row with NULL in it is malformed.
	Required [Roles]bool
	// Incomplete is why no row of this schema makes a record; nil: it does.
	Incomplete *Fault
}

// Accessor reads a value of a row; see [Row.Text]. The zero value reads NULL.
type Accessor struct {
	// Column is the name of the column that is read, for error messages.
	Column string

	number int32 // of the column, from 1; 0: the rows have none
	form   cdc.Form
	ascii  bool // rendered by the relay
}

// Exists reports whether the rows have the column.
func (a *Accessor) Exists() bool { return a.number > 0 }

// Form is the column's form.
func (a *Accessor) Form() cdc.Form { return a.form }

// Index returns the index of the column, or -1.
func (a *Accessor) Index() int { return int(a.number) - 1 }

// Plan finds the parts of an event in a table. setting is the table's place in the configuration ("tables[0]"). An error is a
// [cdc.StopError] about the table or the configuration.
func (l Layout) Plan(t *cdc.Table, setting string) (*Plan, error) {
	p := &Plan{Table: t}
	for role := range Roles {
		name := l.Column(role)
		p.Required[role] = l.NotNull(role)
		if l.MustExist(role) && p.Added(name) {
			p.Parts[role].Column = name
			continue
		}
		a, err := Column(t, name)
		if err != nil {
			return nil, err
		}
		fix := ""
		switch {
		case !a.Exists() && l.MustExist(role):
			err = fmt.Errorf("column %s of %s is missing", name, t)
			fix = fmt.Sprintf("add it to the table, or name the column that holds the %s under %s.columns", role, setting)
		case a.Exists() && role == OccurredAt && !isTime(a.form):
			err = fmt.Errorf("column %s of %s is not a time", name, t)
			fix = fmt.Sprintf("name a time column under %s.columns.%s", setting, role)
		}
		if err != nil {
			return nil, cdc.Stop(cdc.ClassConfig, cdc.MissingColumn, err, fix)
		}
		p.Parts[role] = a
	}
	return p, nil
}

// Added reports whether the table has a column by now that it did not have when rows of this schema were written: then there is nothing
// to correct in the table or the configuration, and the rows are to blame. The first such column is noted in Incomplete.
func (p *Plan) Added(column string) bool {
	now := p.Table.Now
	if now == nil || p.Table.Index(column) >= 0 || now.Index(column) < 0 {
		return false
	}
	if p.Incomplete == nil {
		p.Incomplete = withoutColumn(column, p.Table)
	}
	return true
}

// Column returns what reads a column, which the table need not have. It refuses one in a character set that the source does not know.
func Column(t *cdc.Table, name string) (Accessor, error) {
	i := -1
	if name != "" {
		i = t.Index(name)
	}
	if i < 0 {
		return Accessor{Column: name}, nil
	}
	a := Accessor{Column: name, number: int32(i + 1), form: t.Columns[i].Form}
	switch a.form {
	case cdc.FormForeign:
		return a, cdc.Stop(cdc.ClassConfig, "charset", fmt.Errorf(
			"column %s of %s is in a character set that the relay does not know", name, t),
			"convert it to utf8mb4, ascii or latin1 (ALTER TABLE ... MODIFY ... CHARACTER SET utf8mb4), or name another column")
	case cdc.FormUUID, cdc.FormMicros2000, cdc.FormLocalMicros2000, cdc.FormInt, cdc.FormBool:
		a.ascii = true
	default:
	}
	return a, nil
}

func isTime(f cdc.Form) bool {
	switch f {
	case cdc.FormText, cdc.FormTimestampText, cdc.FormMicros2000, cdc.FormLocalMicros2000:
		return true
	default:
		return false
	}
}
