package source

import (
	"log/slog"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/repair"
)

// NewRepair implements [Database].
func (m *MySQL) NewRepair(verify func(*cdc.Table) error, read ConnString, log *slog.Logger) repair.Database {
	o := binlog.RepairOptions{Options: m.Binlog}
	o.Verify, o.ReadDSN = verify, read
	for i := range m.tables {
		o.Read = append(o.Read, m.readOptions(&m.tables[i]))
	}
	return binlog.NewRepair(o, log)
}
