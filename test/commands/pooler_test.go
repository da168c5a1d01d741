package commands

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// PgBouncer passes replication on from 1.23 on. A relay works through it with the settings that docs/postgresql.md names. Without them it
// refuses the relay's connections.
func TestPoolerThatPassesReplicationOn(t *testing.T) {
	t.Parallel()
	const ignore = "ignore_startup_parameters = statement_timeout, wal_sender_timeout, bytea_output"
	s := newSite(t).setup()
	direct := s.pg.Addr()
	through := testenv.NewPgBouncer(t, postgres, "pool_mode = session", ignore).Addr()
	s.replace(direct, through)
	s.says(0, "", "check")
	relay := s.insert(1).start()
	s.published(relay.leading(), 1)
	relay.stops()
	s.replace(through, testenv.NewPgBouncer(t, postgres, "pool_mode = session").Addr())
	s.says(2, "unsupported startup parameter", "run")
}
