package outbox

import (
	"fmt"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Malformed is the reason of a [Fault] in what a row holds.
const Malformed = "malformed"

// Fault is why a row makes no record. It is shared between rows and never changed.
type Fault struct {
	// Reason is [Malformed], [cdc.MissingColumn], or another one of the router's.
	Reason string
	// Cause goes on after "event ... of ...": "is malformed: column payload is NULL". It contains neither payload nor header values.
	Cause string
	// Fix is what to do: "correct what writes it".
	Fix string
}

// Bad is the fault of a value.
func Bad(a *Accessor, cause string) *Fault {
	return &Fault{Malformed, fmt.Sprintf("is malformed: %s %s", a.Name, cause), "correct what writes it"}
}

// Or returns a fault of the same cause with another way out before its own.
func (f *Fault) Or(fix string) *Fault { return &Fault{f.Reason, f.Cause, fix + ", or " + f.Fix} }

// withoutColumn is the fault of rows that lack a column which their table has now. If it has lost one of theirs, the column may have
// been renamed, and then the value is there: no policy may drop such a row or make a letter of it.
func withoutColumn(name string, t *cdc.Table) *Fault {
	var lost []string
	for i := range t.Columns {
		if t.Now.Index(t.Columns[i].Name) < 0 {
			lost = append(lost, t.Columns[i].Name)
		}
	}
	if lost == nil {
		return &Fault{
			Malformed, "is malformed: it was logged without column " + name + ", which the table has now",
			"run the relay with its former configuration until it has published such rows, if that does not need the column",
		}
	}
	was := strings.Join(lost, ", ")
	return &Fault{
		cdc.MissingColumn,
		fmt.Sprintf("was written when the table had no column %s, but %s, which it does not have now", name, was),
		fmt.Sprintf("if %s was renamed, rename it back, run the relay with its former configuration until it stops at the first row with "+
			"the new name, then rename the column again and change the configuration", was),
	}
}
