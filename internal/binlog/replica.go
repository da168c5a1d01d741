package binlog

import (
	"context"
	"database/sql"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// replica is whether a server replicates from another.
type replica struct {
	configured bool // it does, or did before it was promoted
	runs       bool
}

// readReplica asks the server. A user without the right to ask gets no answer.
func readReplica(ctx context.Context, db *sql.DB, f cdc.Flavor) (r replica) {
	query := `SHOW REPLICA STATUS`
	if f == cdc.MariaDB {
		query = `SHOW ALL SLAVES STATUS`
	}
	found, err := db.QueryContext(ctx, query)
	if err != nil {
		return r
	}
	defer func() { _ = found.Close() }()
	columns, err := found.Columns()
	if err != nil {
		return r
	}
	values, row := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range values {
		row[i] = &values[i]
	}
	for found.Next() && found.Scan(row...) == nil {
		r.configured = true
		for i, name := range columns {
			if strings.HasSuffix(name, "_Running") && values[i].String != "No" && values[i].String != "" {
				r.runs = true
			}
		}
	}
	r.runs = r.runs || found.Err() != nil
	return r
}
