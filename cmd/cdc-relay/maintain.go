package main

import (
	"context"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/retention"
	"github.com/cdc-relay/cdc-relay/internal/source"
	"github.com/cdc-relay/cdc-relay/internal/stubs"
)

// maintainers run side by side.
type maintainers []relay.Maintainer

// Run ends when all have ended.
func (m maintainers) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, each := range m {
		running.Go(func() { each.Run(ctx) })
	}
	running.Wait()
}

// newMaintainer returns what looks after the tables; nothing where the configuration leaves them alone.
func newMaintainer(c *config.Config, db source.Database, load cdc.Loader, log *slog.Logger, reg prometheus.Registerer) (all maintainers, err error) {
	dsn, err := db.ConnString("")
	if err != nil {
		return nil, err
	}
	guard := stubs.Guard(c, db, dsn, nil)
	if c.Partitions != nil {
		all = append(all, retention.New(retentionOptions(c.Partitions), db.Partitions(dsn, false, load), guard, log, retention.NewMetrics(reg)))
	}
	if c.Retention != nil {
		all = append(all, retention.NewPurger(purgeOptions(c.Retention.Delete), db.Rows(dsn, load), guard, log, reg))
	}
	return all, nil
}

func retentionOptions(p *config.Partitions) retention.Options {
	return retention.Options{Ahead: p.Ahead, TTL: p.Age(), Every: p.Every, Drop: p.Drop}
}
