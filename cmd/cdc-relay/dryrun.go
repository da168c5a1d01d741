package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/events"
)

// dryRun prints what run would publish from now on.
func dryRun(ctx context.Context, c *config.Config, out io.Writer, log *slog.Logger) error {
	log.Info("dry run: printing records of new commits, publishing nothing")
	lines := json.NewEncoder(out)
	return events.FromSource(ctx, c, log, func(r *events.Record) error {
		if err := lines.Encode(r); err != nil {
			return fmt.Errorf("print record: %w", err)
		}
		return nil
	})
}
