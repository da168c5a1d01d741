package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/scan"
	"github.com/cdc-relay/cdc-relay/internal/source"
)

// filter selects events. Values of one kind are alternatives; the kinds are combined.
type filter struct {
	IDs        []string  `json:"id,omitempty"`
	Keys       []string  `json:"key,omitempty"`
	Types      []string  `json:"type,omitempty"`
	Aggregates []string  `json:"aggregate_type,omitempty"`
	Tenants    []string  `json:"tenant,omitempty"`
	From       time.Time `json:"from,omitzero"`
	To         time.Time `json:"to,omitzero"`
}

func (f *filter) add(cmd *cobra.Command) {
	for name, flag := range map[string]struct {
		values *[]string
		help   string
	}{
		"id":             {&f.IDs, "the event with this `ID`"},
		"key":            {&f.Keys, "events of this `key`: partition_key, or else aggregate_id"},
		"type":           {&f.Types, "events of this event `type`"},
		"aggregate-type": {&f.Aggregates, "events of this aggregate `type`"},
		"tenant":         {&f.Tenants, "events of this `tenant`"},
	} {
		cmd.Flags().StringArrayVar(flag.values, name, nil, flag.help+" (may be repeated)")
	}
}

func (f *filter) addTimes(cmd *cobra.Command) {
	cmd.Flags().Var(&timeFlag{&f.From}, "from", "events created at or after this `time`, such as 2026-01-02T15:04:05Z")
	cmd.Flags().Var(&timeFlag{&f.To}, "to", "events created before this `time`")
}

// check returns an error for values that select nothing.
func (f *filter) check() error {
	for name, values := range map[string][]string{"id": f.IDs, "key": f.Keys, "type": f.Types, "aggregate-type": f.Aggregates, "tenant": f.Tenants} {
		if slices.Contains(values, "") {
			return cdc.Usage("give a value, or leave it out", "--%s is empty", name)
		}
	}
	if !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		return notBefore(f.From, f.To)
	}
	return nil
}

func notBefore(from, to time.Time) error {
	return cdc.Usage("give an earlier --from", "--from %s is not before --to %s", rfc3339(from), rfc3339(to))
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// empty reports whether it selects everything.
func (f *filter) empty() bool {
	return len(f.IDs)+len(f.Keys)+len(f.Types)+len(f.Aggregates)+len(f.Tenants) == 0 && f.From.IsZero() && f.To.IsZero()
}

// forTable returns the filter in the columns of a table, and false if the table lacks one, so that nothing in it is selected.
func (f *filter) forTable(t *source.Table, r scan.Table) (scan.Filter, bool, error) {
	layout, err := outbox.Mapped(t.Columns)
	if err != nil {
		return scan.Filter{}, false, err
	}
	found := scan.Filter{IDs: f.IDs, From: f.From, To: f.To}
	for _, m := range []struct {
		values []string
		roles  []outbox.Role
	}{
		{f.Keys, []outbox.Role{outbox.PartitionKey, outbox.AggregateID}},
		{f.Types, []outbox.Role{outbox.EventType}},
		{f.Aggregates, []outbox.Role{outbox.AggregateType}},
		{f.Tenants, []outbox.Role{outbox.TenantID}},
	} {
		if len(m.values) == 0 {
			continue
		}
		var columns []string
		for _, role := range m.roles {
			if column := layout.Column(role); column != "" && r.Has(column) {
				columns = append(columns, column)
			}
		}
		if len(columns) == 0 {
			return found, false, nil
		}
		found.Matches = append(found.Matches, scan.Match{Columns: columns, Values: m.values})
	}
	return found, true, nil
}

// flags lists what is selected, as on the command line.
func (f *filter) flags() string {
	var b strings.Builder
	for _, values := range []struct {
		name string
		list []string
	}{{"id", f.IDs}, {"key", f.Keys}, {"type", f.Types}, {"aggregate-type", f.Aggregates}, {"tenant", f.Tenants}} {
		for _, value := range values.list {
			b.WriteString(" --" + values.name + " " + value)
		}
	}
	for name, at := range map[string]time.Time{"from": f.From, "to": f.To} {
		if !at.IsZero() {
			b.WriteString(" --" + name + " " + rfc3339(at))
		}
	}
	return strings.TrimSpace(b.String())
}

// timeFlag is a flag with a time and its zone.
type timeFlag struct{ at *time.Time }

// Set parses RFC 3339.
func (f *timeFlag) Set(s string) error {
	at, err := time.Parse(time.RFC3339Nano, s)
	if err == nil {
		*f.at = at
		return nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if local, err := time.Parse(layout, s); err == nil {
			return cdc.Usage("write "+local.Format("2006-01-02T15:04:05")+"Z for UTC, or with an offset such as +02:00", "the time has no zone")
		}
	}
	return cdc.Usage("write it like 2026-01-02T15:04:05Z", "not a time")
}

// String returns the flag's value.
func (f *timeFlag) String() string {
	if f.at == nil || f.at.IsZero() {
		return ""
	}
	return rfc3339(*f.at)
}

// Type is what the help shows.
func (f *timeFlag) Type() string { return "time" }
