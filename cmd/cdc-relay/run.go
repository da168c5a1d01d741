package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

func newRunCommand(a *app) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Publish committed outbox events until stopped",
		Long: `Tail the database's log and publish every committed outbox event to Kafka, in commit order per key.

The first SIGTERM or SIGINT drains what is in flight, saves the position and tells the database; a second
one stops at once. Nothing is lost either way: what was not confirmed is published again.`,
		Example: "  cdc-relay run --config orders.yaml\n  cdc-relay run --dry-run",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			log := newLogger(a.stderr, c.Log)
			for _, w := range c.Warnings() {
				log.Warn(w)
			}
			if dry {
				return dryRun(cmd.Context(), c, a.stdout, log)
			}
			return run(cmd.Context(), c, log)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "read from a temporary slot and print the records; publish and move nothing")
	return cmd
}

// run wires the stages and runs the relay until ctx ends or a person is needed.
func run(ctx context.Context, c *config.Config, log *slog.Logger) error {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	stages, closeStore, err := wire(c, log, reg)
	if err != nil {
		return err
	}
	defer closeStore()
	r := relay.New(relayOptions(c), stages, log, reg)
	return r.Run(ctx)
}

func wire(c *config.Config, log *slog.Logger, reg prometheus.Registerer) (relay.Stages, func(), error) {
	o, err := walOptions(c)
	if err != nil {
		return relay.Stages{}, nil, err
	}
	router, err := newRouter(c)
	if err != nil {
		return relay.Stages{}, nil, err
	}
	sink, err := newPublisher(c, log, reg)
	if err != nil {
		return relay.Stages{}, nil, err
	}
	store, err := newStore(c)
	if err != nil {
		return relay.Stages{}, nil, err
	}
	stages := relay.Stages{Source: source{wal.New(o, log, reg)}, Router: router, Sink: sink, Checkpointer: store}
	return stages, func() { _ = store.Close() }, nil
}
