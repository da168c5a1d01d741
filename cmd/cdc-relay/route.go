package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/source"
	"github.com/cdc-relay/cdc-relay/internal/stages"
)

// routedRow is the answer of the command route.
type routedRow struct {
	// By names what decided the topic: a route or the topic column.
	By string `json:"by"`
	printedRecord
}

func newRouteCommand(a *app) *cobra.Command {
	var (
		output     outputFlag
		row, table string
	)
	cmd := &cobra.Command{
		Use:   "route --row JSON",
		Short: "Show which route a row takes and the record that it becomes",
		Long: `Show which route a row takes and the record that it becomes. No server is contacted.

The row is a JSON object of columns. Strings are taken as they are, other values as their JSON; null, and a column that
is left out, is NULL. A row without an event ID gets an example.`,
		Example: `  cdc-relay route --row '{"aggregate_type": "Order", "aggregate_id": "o-1", "event_type": "OrderPlaced", "payload": {"total": 12}}'`,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			res, err := routeRow(c, table, row)
			if err != nil {
				return err
			}
			if output.json() {
				return printJSON(a.stdout, res)
			}
			a.printRouted(res)
			return nil
		},
	}
	output.add(cmd)
	cmd.Flags().StringVar(&row, "row", "", "the row, as a `JSON` object")
	cmd.Flags().StringVar(&table, "table", "", "the row's `table` (default the first of the configuration)")
	return cmd
}

func (a *app) printRouted(r routedRow) {
	key := "NULL: any partition"
	if r.Key != nil {
		key = *r.Key
	}
	a.printf("%-8s %s\n%-8s %s\n%-8s %s\n", "by", r.By, "topic", r.Topic, "key", key)
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		a.printf("%-8s %s: %s\n", "header", name, r.Headers[name])
	}
	switch {
	case r.Value != nil:
		a.printf("%-8s %s\n", "value", *r.Value)
	case r.ValueBase64 != nil:
		a.printf("%-8s %d bytes\n", "value", len(r.ValueBase64))
	default:
		a.printf("%-8s %s\n", "value", "NULL: a tombstone")
	}
}

// routeRow routes a row of a table, "" for the first, as run would.
func routeRow(c *config.Config, table, row string) (routedRow, error) {
	db, err := source.New(c)
	if err != nil {
		return routedRow{}, err
	}
	r, err := stages.Router(c, db.Tables())
	if err != nil {
		return routedRow{}, err
	}
	batch, err := oneRow(db.Tables(), table, row)
	if err != nil {
		return routedRow{}, err
	}
	var routed cdc.Routed
	routed.Reset(batch)
	if err := r.Route(batch, &routed); err != nil {
		return routedRow{}, err
	}
	if len(routed.Drops) > 0 {
		return routedRow{}, notPublished(routed.Drops[0])
	}
	return routedRow{r.Matched(batch), printed(&routed.Messages[0])}, nil
}

func notPublished(d cdc.Drop) error {
	if d.Err != nil {
		return fmt.Errorf("not published, because of errors.unroutable: %w", d.Err)
	}
	return fmt.Errorf("event %s is not published, because errors.skip lists it", d.EventID)
}

// exampleID is the event ID of a row without one.
const exampleID = "00000000-0000-7000-8000-000000000000"

// oneRow is a batch with a row of the named table.
func oneRow(tables []source.Table, table, row string) (*cdc.Batch, error) {
	at := 0
	if table != "" {
		at = slices.IndexFunc(tables, func(t source.Table) bool { return t.Name.String() == table || t.Name.Table == table })
	}
	if at < 0 {
		return nil, cdc.Usage("name a table of the configuration", "--table: %s is not configured", table)
	}
	layout, err := outbox.Mapped(tables[at].Columns)
	if err != nil {
		return nil, err
	}
	values, err := parseRow(row)
	if err != nil {
		return nil, err
	}
	for role := range outbox.Roles {
		if column := layout.Column(role); column != "" && values[column] == nil {
			values[column] = example(role)
		}
	}
	return batchOf(tables[at].Name, values), nil
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

// parseRow returns the values of a JSON object as text; nil is NULL.
func parseRow(text string) (map[string][]byte, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		if err == nil {
			err = errors.New("null")
		}
		return nil, cdc.Usage(`give an object such as {"aggregate_type": "Order", "event_type": "OrderPlaced"}`, "--row is not a JSON object: %w", err)
	}
	values := make(map[string][]byte, len(object))
	for column, raw := range object {
		var s string
		switch {
		case bytes.Equal(raw, []byte("null")):
			values[column] = nil
		case json.Unmarshal(raw, &s) == nil:
			values[column] = append([]byte{}, s...)
		default:
			values[column] = raw
		}
	}
	return values, nil
}

// batchOf returns a batch of one row in a table of text columns.
func batchOf(table outbox.Name, values map[string][]byte) *cdc.Batch {
	t := &cdc.Table{Schema: table.Schema, Name: table.Table}
	b := &cdc.Batch{Seq: 1, Table: t, Txs: []cdc.Tx{{Time: time.Now().UnixMicro()}}}
	for _, column := range slices.Sorted(maps.Keys(values)) {
		t.Columns = append(t.Columns, cdc.Column{Name: column, Form: cdc.FormText})
		span := cdc.Span{Off: int32(len(b.Arena)), Len: -1}
		if v := values[column]; v != nil {
			span.Len = int32(len(v))
			b.Arena = append(b.Arena, v...)
		}
		b.Spans = append(b.Spans, span)
	}
	return b
}
