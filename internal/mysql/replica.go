package mysql

import (
	"context"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// replica is whether a server replicates from another.
type replica struct {
	configured bool // it does, or did before it was promoted
	runs       bool
}

// replicaStatus is the statement that shows what a server replicates.
func replicaStatus(f cdc.Flavor) string {
	if f == cdc.MariaDB {
		return `SHOW ALL SLAVES STATUS`
	}
	return `SHOW REPLICA STATUS`
}

// Replica reports whether the server takes no writes, or those of another.
func (d *Database) Replica(ctx context.Context) bool {
	return d.Server.ReadOnly || readReplica(ctx, d.DB, d.Server.Flavor).runs
}

// readReplica asks the server. A user without the right to ask gets no answer.
func readReplica(ctx context.Context, db querier, f cdc.Flavor) (r replica) {
	err := eachShown(ctx, db, replicaStatus(f), func(shown map[string]string) {
		r.configured = true
		for name, value := range shown {
			if strings.HasSuffix(name, "_running") && value != "No" && value != "" {
				r.runs = true
			}
		}
	})
	r.runs = r.runs || r.configured && err != nil
	return r
}
