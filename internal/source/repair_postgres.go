package source

import (
	"log/slog"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/repair"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

// NewRepair implements [Database].
func (p *Postgres) NewRepair(verify func(*cdc.Table) error, read ConnString, log *slog.Logger) repair.Database {
	o := wal.RepairOptions{Options: p.WAL, Failover: p.Config.Source.Postgres.Failover != config.FailoverOff}
	o.Verify, o.ReadDSN = verify, read
	for i := range p.tables {
		o.Read = append(o.Read, p.readOptions(&p.tables[i]))
	}
	return wal.NewRepair(o, log)
}
