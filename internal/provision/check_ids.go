package provision

import (
	"context"
	"fmt"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// checkIDs warns where two events may have one ID: a consumer takes the second for a repetition.
func (c *check) checkIDs(ctx context.Context, tables map[string]*cdc.Table, r *cdc.Report) {
	switch own := c.db.(type) {
	case *app.Postgres:
		if db, err := postgres.OpenDatabase(ctx, own.WAL.Options); err == nil { // otherwise it is reported
			defer db.Close(ctx)
			noteRepeatedIDs(ctx, db, c.db.Tables(), tables, outbox.PostgresUnique, r)
		}
	case *app.MySQL:
		if db, err := mysql.OpenDatabase(ctx, own.Binlog.Options); err == nil {
			defer db.Close()
			noteRepeatedIDs(ctx, db, c.db.Tables(), tables, outbox.MySQLUnique, r)
		}
	default:
		panic(fmt.Sprintf("provision: no check of the IDs of a %T", own))
	}
	noteSharedIDs(c.db.Tables(), tables, r)
}

// noteRepeatedIDs warns of a column of event IDs that may hold a value twice.
func noteRepeatedIDs(ctx context.Context, db namer, all []app.Table, found map[string]*cdc.Table, unique func(table outbox.Name, column string) string, r *cdc.Report) {
	for i := range all {
		name, column := all[i].Name, all[i].Layout.Column(outbox.EventID)
		if !all[i].Foreign() || found[name.String()] == nil || column == "" {
			continue
		}
		if indexes, err := db.Names(ctx, "look for a unique index of "+name.String(), unique(name, column)); err == nil && len(indexes) == 0 {
			r.Warn("table "+name.String(), "create a unique index on it", "column %s has no unique index: two events may have one ID", column)
		}
	}
}

// noteSharedIDs warns of two tables whose numbers make the same IDs.
func noteSharedIDs(all []app.Table, found map[string]*cdc.Table, r *cdc.Report) {
	number := func(t *app.Table) bool {
		has := found[t.Name.String()]
		if !t.Foreign() || has == nil {
			return false
		}
		i := has.Index(t.Layout.Column(outbox.EventID))
		return i >= 0 && has.Columns[i].Type == cdc.TypeInteger
	}
	for i := range all {
		for j := range all[:i] {
			long, short := all[i].Layout.IDPrefix(), all[j].Layout.IDPrefix()
			if len(long) < len(short) {
				long, short = short, long
			}
			rest, begins := strings.CutPrefix(long, short)
			if begins && strings.Trim(rest, "0123456789") == "" && number(&all[i]) && number(&all[j]) {
				r.Warn("table "+all[i].Name.String(), `give each table a prefix that ends with no digit, as in event_id: {template: "orders-${id}"}`,
					"its event IDs and those of %s are numbers that can be the same", all[j].Name)
			}
		}
	}
}
