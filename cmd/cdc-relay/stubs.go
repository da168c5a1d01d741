package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/retention"
	"github.com/cdc-relay/cdc-relay/internal/scan"
)

// stubRow reads the row of a letter that is too large for its topic.
func stubRow(ctx context.Context, db database, l *deadletter.Letter) (*cdc.Batch, error) {
	tables := db.tables()
	i := slices.IndexFunc(tables, func(t outboxTable) bool { return t.name.String() == l.Table })
	if i < 0 {
		return nil, fmt.Errorf("its payload is only in table %s, which is not configured", l.Table)
	}
	dsn, err := db.connString("")
	if err != nil {
		return nil, err
	}
	reader, err := db.reader(ctx, dsn, &tables[i])
	if err != nil {
		return nil, err
	}
	defer reader.Close(ctx)
	rows := 0
	var row *cdc.Batch
	err = scan.Fetch(ctx, reader, l.ID, time.Time{}, func(b *cdc.Batch) error {
		rows += len(b.Txs)
		row = b
		return nil
	})
	if err == nil && rows != 1 {
		err = fmt.Errorf("its payload is only in table %s, which has %s with this event ID", l.Table, plural(rows, "row"))
	}
	return row, err
}

// relayedTables are the tables with daily partitions. What was taken out of them stays while dead letters need its rows.
func relayedTables(n *needed, owner bool, load cdc.Loader) (retention.Tables, error) {
	open, err := n.db.partitions(n.dsn, owner, load)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) ([]retention.Table, func(), error) {
		tables, closeAll, err := open(ctx)
		for i := range tables {
			tables[i] = keptParts{tables[i], n}
		}
		return tables, closeAll, err
	}, nil
}

type keptParts struct {
	retention.Table

	needed *needed
}

// List looks at the letters last: a row that is relayed by then has its letter.
func (k keptParts) List(ctx context.Context) ([]cdc.Partition, time.Time, error) {
	parts, now, err := k.Table.List(ctx)
	if !slices.ContainsFunc(parts, func(p cdc.Partition) bool { return p.Relayed }) {
		return parts, now, err
	}
	if stubs := k.needed.check(ctx); stubs != nil {
		for i := range parts {
			if parts[i].Relayed {
				parts[i].Relayed, parts[i].Kept = false, stubs
			}
		}
	}
	return parts, now, err
}

// relayedRows are the tables whose old rows are deleted, but not while dead letters may need them.
func relayedRows(n *needed, load cdc.Loader) retention.RowTables {
	open := n.db.rows(n.dsn, load)
	return func(ctx context.Context) ([]retention.Rows, func(), error) {
		tables, closeAll, err := open(ctx)
		for i := range tables {
			tables[i] = keptRows{tables[i], n}
		}
		return tables, closeAll, err
	}
}

type keptRows struct {
	retention.Rows

	needed *needed
}

// Passed looks at the letters last, as keptParts does.
func (k keptRows) Passed(ctx context.Context, behind cdc.Position) (bool, error) {
	passed, err := k.Rows.Passed(ctx, behind)
	if passed && err == nil {
		err = k.needed.check(ctx)
	}
	return passed, err
}
