package main

import (
	"log/slog"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/repair"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

func (p *postgres) newRepair(verify func(*cdc.Table) error, read connString, log *slog.Logger) repair.Database {
	o := wal.RepairOptions{Options: p.wal, Failover: p.config.Source.Postgres.Failover != config.FailoverOff}
	o.Verify, o.ReadDSN = verify, read
	for _, t := range p.list {
		key, at := t.keyAndTime()
		read := wal.ReadOptions{Table: t.name.String(), SQL: t.name.SQL(), Key: key, At: at}
		if !t.foreign() {
			read.TakenOut = outbox.PostgresTakenOut(t.name)
		}
		o.Read = append(o.Read, read)
	}
	return wal.NewRepair(o, log)
}
