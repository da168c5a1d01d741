package main

import (
	"log/slog"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/repair"
)

func (m *mysql) newRepair(verify func(*cdc.Table) error, read connString, log *slog.Logger) repair.Database {
	o := binlog.RepairOptions{Options: m.binlog}
	o.Verify, o.ReadDSN = verify, read
	for _, t := range m.list {
		key, at := t.keyAndTime()
		read := binlog.ReadOptions{Table: t.name.String(), Key: key, At: at}
		if !t.foreign() {
			read.TakenOut, read.Routine = outbox.MySQLTakenOut(t.name), outbox.MySQLRoutine(t.name).MySQL()
		}
		o.Read = append(o.Read, read)
	}
	return binlog.NewRepair(o, log)
}
