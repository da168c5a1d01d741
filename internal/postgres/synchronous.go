package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// applicationName is that of all connections of the relay.
const applicationName = "cdc-relay"

const fixSynchronous = "name the standbys in synchronous_standby_names, without * and without " + applicationName + ", then SELECT pg_reload_conf()"

// ErrSynchronous says that commits would wait until the relay confirms their rows, and the relay until the commits are visible.
var ErrSynchronous = errors.New("synchronous_standby_names matches the relay itself, so commits wait for the relay, and their rows are not visible until then")

// VerifyAsynchronous returns an error if PostgreSQL takes the relay's walsender for a synchronous standby; running is whether the relay has
// worked here before, so that the setting was changed since, and it goes on once that is corrected. It parses the setting:
// pg_stat_replication.sync_priority is 0 until the first status update, and NULL for a role without pg_read_all_stats.
func VerifyAsynchronous(ctx context.Context, conn *pgx.Conn, running bool) error {
	var names string
	var standby bool
	if err := conn.QueryRow(ctx, `SELECT current_setting('synchronous_standby_names'), pg_is_in_recovery()`).Scan(&names, &standby); err != nil {
		return fmt.Errorf("read synchronous_standby_names: %w", err)
	}
	switch {
	case standby || !namesRelay(names): // nothing commits on a standby
		return nil
	case running:
		return &cdc.FixableError{Cause: ErrSynchronous, Fix: fixSynchronous}
	}
	return synchronousRelay()
}

func synchronousRelay() error {
	return cdc.Stop(cdc.ClassConfig, "synchronous_relay", ErrSynchronous, fixSynchronous)
}

// namesRelay reports whether a value of synchronous_standby_names matches the relay: a list of names, or [FIRST | ANY] n (list). * is
// every walsender, and case does not count. Source: PostgreSQL's syncrep_scanner.l and SyncRepGetStandbyPriority.
func namesRelay(setting string) bool {
	names := regexp.MustCompile(`"[^"]*"?|[^\s\v,()"]+`).FindAllString(setting, -1)
	return slices.ContainsFunc(names, func(name string) bool {
		name = strings.Trim(name, `"`)
		return name == "*" || strings.EqualFold(name, applicationName)
	})
}
