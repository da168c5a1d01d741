package main

import (
	"log/slog"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/repair"
)

func (m *mysql) newRepair(verify func(*cdc.Table) error, read connString, log *slog.Logger) repair.Database {
	o := binlog.RepairOptions{Options: m.binlog}
	o.Verify, o.ReadDSN = verify, read
	for i := range m.list {
		o.Read = append(o.Read, m.readOptions(&m.list[i]))
	}
	return binlog.NewRepair(o, log)
}
