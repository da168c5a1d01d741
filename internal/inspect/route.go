package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/router"
)

// Routed is a row with the record that it becomes.
type Routed struct {
	// By names what decided the topic: a route or the topic column.
	By string `json:"by"`
	Record
}

// Route routes a row of a table, "" for the first, as run would.
func Route(c *config.Config, table, row string) (Routed, error) {
	db := app.NewDatabase(c)
	r := app.Router(c, db.Tables())
	batch, at, err := oneRow(r, db.Tables(), table, row)
	if err != nil {
		return Routed{}, err
	}
	var routed cdc.Routed
	routed.Reset(batch)
	if err := r.Route(batch, &routed); err != nil {
		return Routed{}, err
	}
	if routed.LeftOut > 0 {
		return Routed{}, cdc.Fixable("give the columns that it names with --row, if they are to have other values", "not published: %s", leftOut(at))
	}
	if len(routed.Drops) > 0 {
		return Routed{}, notPublished(routed.Drops[0])
	}
	return Routed{r.Matched(), newPrinter(c).record(&routed.Messages[0])}, nil
}

// leftOut says why a row of the table with that index is left out.
func leftOut(table int) string {
	return fmt.Sprintf("tables[%d].only leaves the row out", table)
}

func notPublished(d cdc.Drop) error {
	if d.Err != nil {
		return fmt.Errorf("not published, because of errors.unroutable: %w", d.Err)
	}
	return fmt.Errorf("event %s is not published, because errors.skip lists it", d.EventID)
}

// exampleID is the event ID of a row without one.
const exampleID = "00000000-0000-7000-8000-000000000000"

// oneRow is a batch with a row of the named table, whose index it returns.
func oneRow(r *router.Router, tables []app.Table, table, row string) (b *cdc.Batch, at int, err error) {
	if table != "" {
		at = slices.IndexFunc(tables, func(t app.Table) bool { return t.Name.String() == table || t.Name.Table == table })
	}
	if at < 0 {
		return nil, at, cdc.Usage("name a table of the configuration", "--table: %s is not configured", table)
	}
	values, err := parseRow(row)
	if err != nil {
		return nil, at, err
	}
	for _, column := range r.Columns(tables[at].Name.String()) {
		if _, known := values[column]; !known {
			values[column] = given{} // NULL
		}
	}
	for role := range outbox.Roles {
		if column := tables[at].Layout.Column(role); column != "" && values[column].text == nil {
			values[column] = given{text: example(role)}
		}
	}
	return batchOf(tables[at].Name, values), at, nil
}

// example is a value for a column that the database fills in; nil is NULL.
func example(role outbox.Role) []byte {
	switch role {
	case outbox.EventID:
		return []byte(exampleID)
	case outbox.OccurredAt, outbox.CreatedAt:
		return []byte(time.Now().UTC().Format(time.RFC3339Nano))
	default:
		return nil
	}
}

// given is the value of a column.
type given struct {
	text []byte // nil: NULL
	of   cdc.Type
}

// parseRow returns the values of a JSON object. A string is text, and another value JSON.
func parseRow(text string) (map[string]given, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		if err == nil {
			err = errors.New("null")
		}
		return nil, cdc.Usage(`give an object such as {"aggregate_type": "Order", "event_type": "OrderPlaced"}`, "--row is not a JSON object: %w", err)
	}
	values := make(map[string]given, len(object))
	for column, raw := range object {
		var s string
		switch {
		case bytes.Equal(raw, []byte("null")):
			values[column] = given{}
		case json.Unmarshal(raw, &s) == nil:
			values[column] = given{text: append([]byte{}, s...)}
		default:
			values[column] = given{raw, cdc.TypeJSON}
		}
	}
	return values, nil
}

// batchOf returns a batch of one row.
func batchOf(table outbox.Name, values map[string]given) *cdc.Batch {
	t := &cdc.Table{Schema: table.Schema, Name: table.Table}
	b := &cdc.Batch{Seq: 1, Table: t, Txs: []cdc.Tx{{Time: time.Now().UnixMicro()}}}
	for _, column := range slices.Sorted(maps.Keys(values)) {
		t.Columns = append(t.Columns, cdc.Column{Name: column, Form: cdc.FormText, Type: values[column].of})
		span := cdc.Span{Off: int32(len(b.Arena)), Len: -1}
		if v := values[column].text; v != nil {
			span.Len = int32(len(v))
			b.Arena = append(b.Arena, v...)
		}
		b.Spans = append(b.Spans, span)
	}
	return b
}
