package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/inspect"
)

func newRouteCommand(a *cli) *cobra.Command {
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
		RunE: a.withConfig(func(_ context.Context, c *config.Config, _ []string) error {
			res, err := inspect.Route(c, table, row)
			if err != nil {
				return err
			}
			return output.print(a, res, func() { a.printRouted(&res) })
		}),
	}
	output.add(cmd)
	cmd.Flags().StringVar(&row, "row", "", "the row, as a `JSON` object")
	cmd.Flags().StringVar(&table, "table", "", "the row's `table` (default the first of the configuration)")
	return cmd
}

func (a *cli) printRouted(r *inspect.Routed) {
	topic, key := r.Topic, "NULL: any partition"
	if r.Partition != nil {
		topic, key = fmt.Sprintf("%s, partition %d", r.Topic, *r.Partition), "NULL"
	}
	if r.Key != nil {
		key = *r.Key
	}
	a.printf("%-8s %s\n%-8s %s\n%-8s %s\n", "by", r.By, "topic", topic, "key", key)
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
