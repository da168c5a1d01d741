// Package inspect finds events in the tables, in the topics and among the dead letters, shows them, and publishes them once more.
package inspect

import (
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// Filter selects events. Values of one kind are alternatives; the kinds are combined.
type Filter struct {
	IDs        []string  `json:"id,omitempty"`
	Keys       []string  `json:"key,omitempty"`
	Types      []string  `json:"type,omitempty"`
	Aggregates []string  `json:"aggregate_type,omitempty"`
	Tenants    []string  `json:"tenant,omitempty"`
	From       time.Time `json:"from,omitzero"`
	To         time.Time `json:"to,omitzero"`
}

// Kind is one of the kinds of values, with the flag that takes them.
type Kind struct {
	Flag, Help string
	Values     *[]string

	roles []outbox.Role // the first that is neither NULL nor empty has the value; nil: the ID
}

// Kinds are all of them.
func (f *Filter) Kinds() []Kind {
	return []Kind{
		{"id", "the event with this `ID`", &f.IDs, nil},
		{"key", "events of this `key`: partition_key, or else aggregate_id", &f.Keys, []outbox.Role{outbox.PartitionKey, outbox.AggregateID}},
		{"type", "events of this event `type`", &f.Types, []outbox.Role{outbox.EventType}},
		{"aggregate-type", "events of this aggregate `type`", &f.Aggregates, []outbox.Role{outbox.AggregateType}},
		{"tenant", "events of this `tenant`", &f.Tenants, []outbox.Role{outbox.TenantID}},
	}
}

// Check returns an error for values that select nothing.
func (f *Filter) Check() error {
	for _, kind := range f.Kinds() {
		if slices.Contains(*kind.Values, "") {
			return cdc.Usage("give a value, or leave it out", "--%s is empty", kind.Flag)
		}
	}
	return CheckTimes(f.From, f.To)
}

// CheckTimes returns an error for times that select nothing.
func CheckTimes(from, to time.Time) error {
	if from.IsZero() || to.IsZero() || from.Before(to) {
		return nil
	}
	return cdc.Usage("give an earlier --since", "--since %s is not before --until %s", RFC3339(from), RFC3339(to))
}

// RFC3339 writes a time with its zone.
func RFC3339(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Empty reports whether it selects everything.
func (f *Filter) Empty() bool {
	return f.flags() == ""
}

// forTable returns the filter in the columns of a table, and false if the table lacks one, so that nothing in it is selected. An error is
// about a part that is not in a column.
func (f *Filter) forTable(t *app.Table, r tableread.Table) (tableread.Filter, bool, error) {
	found := tableread.Filter{IDs: f.IDs, From: f.From, To: f.To}
	for _, kind := range f.Kinds() {
		if len(*kind.Values) == 0 || kind.roles == nil {
			continue
		}
		columns, selects, err := kind.columns(t, r)
		if err != nil || !selects {
			return found, false, err
		}
		if len(columns) > 0 {
			found.Matches = append(found.Matches, tableread.Match{Columns: columns, Values: *kind.Values})
		}
	}
	return found, true, nil
}

// columns returns the columns that have the part. There are none if every row has the same; selects says then whether it is one of the
// values.
func (k *Kind) columns(t *app.Table, r tableread.Table) (columns []string, selects bool, err error) {
	for _, role := range k.roles {
		switch part := t.Layout.Part(role); {
		case part.Column != "":
			if r.Has(part.Column) {
				columns = append(columns, part.Column)
			}
		case part.Const != "" && len(columns) == 0:
			return nil, slices.Contains(*k.Values, part.Const), nil
		case t.Layout.Has(role):
			return nil, false, cdc.Usage("leave it out, and select by --id, or by --since and --until",
				"--%s cannot be looked for in table %s, whose %s is no column but %s", k.Flag, t.Name, role, part)
		}
	}
	return columns, len(columns) > 0, nil
}

// flags lists what is selected, as on the command line.
func (f *Filter) flags() string {
	var b strings.Builder
	for _, kind := range f.Kinds() {
		for _, value := range *kind.Values {
			b.WriteString(" --" + kind.Flag + " " + value)
		}
	}
	for name, at := range map[string]time.Time{"since": f.From, "until": f.To} {
		if !at.IsZero() {
			b.WriteString(" --" + name + " " + RFC3339(at))
		}
	}
	return strings.TrimSpace(b.String())
}
