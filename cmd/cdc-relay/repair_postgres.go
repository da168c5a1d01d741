package main

import (
	"log/slog"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/repair"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

func (p *postgresCommands) newRepair(verify func(*cdc.Table) error, read connString, log *slog.Logger) repair.Database {
	o := wal.RepairOptions{Options: p.wal, Failover: p.config.Source.Postgres.Failover != config.FailoverOff}
	o.Verify, o.ReadDSN = verify, read
	for i := range p.list {
		o.Read = append(o.Read, p.readOptions(&p.list[i]))
	}
	return wal.NewRepair(o, log)
}
