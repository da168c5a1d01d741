package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// replica is whether a server replicates from another.
type replica struct {
	configured bool // it does, or did before it was promoted
	runs       bool
	answered   bool // it has said all of that
}

// readReplica asks the server. A user without the right to ask gets no answer.
func readReplica(ctx context.Context, db querier, f cdc.Flavor) (r replica) {
	query := `SHOW REPLICA STATUS`
	if f == cdc.MariaDB {
		query = `SHOW ALL SLAVES STATUS`
	}
	err := eachShown(ctx, db, query, func(shown map[string]string) {
		r.configured = true
		for name, value := range shown {
			if strings.HasSuffix(name, "_running") && value != "No" && value != "" {
				r.runs = true
			}
		}
	})
	r.answered = err == nil
	r.runs = r.runs || r.configured && !r.answered
	return r
}

// FreeServerID returns an ID in the upper half that no replica known to the server has.
func FreeServerID(ctx context.Context, db *sql.DB, f cdc.Flavor) (uint32, error) {
	var own uint32
	if err := db.QueryRowContext(ctx, `SELECT @@GLOBAL.server_id`).Scan(&own); err != nil {
		return 0, fmt.Errorf("read the server's id: %w", err)
	}
	taken := append(replicaIDs(ctx, db, f), own)
	for {
		if id := 1<<31 | rand.Uint32(); !slices.Contains(taken, id) { //nolint:gosec // it need only differ
			return id, nil
		}
	}
}

// replicaIDs lists the ids of the server's replicas; none when it may not be asked, which is then left to chance.
func replicaIDs(ctx context.Context, db *sql.DB, f cdc.Flavor) []uint32 {
	query := `SHOW REPLICAS`
	if f == cdc.MariaDB {
		query = `SHOW SLAVE HOSTS`
	}
	var ids []uint32
	err := eachShown(ctx, db, query, func(shown map[string]string) {
		if id, err := strconv.ParseUint(shown["server_id"], 10, 32); err == nil {
			ids = append(ids, uint32(id))
		}
	})
	if err != nil {
		return nil
	}
	return ids
}
