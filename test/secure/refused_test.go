package secure

import (
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A connection that PostgreSQL or the relay refuses is one clear line with the fix, and not a server that cannot be reached.
func TestRefusedPostgres(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	testenv.Must(t, db.Exec(t.Context(), "CREATE ROLE plain LOGIN SUPERUSER PASSWORD 'hunter2'"))
	r := newRig(t, db, func(o *cdctest.RigOptions) { o.Checkpoint, o.Settings = cdctest.InFile, map[string]any{} })
	ca := map[string]any{"ca": shared.postgres.Certs.CAFile}
	for name, tt := range map[string]struct {
		dsn  string
		tls  map[string]any
		says []string
	}{
		"channel binding":       {"postgres://plain:hunter2@ADDR?channel_binding=require", ca, []string{"does not authenticate with channel binding", "scram-sha-256 in pg_hba.conf"}},
		"no client certificate": {"postgres://relay:hunter2@ADDR", ca, []string{"requires a valid client certificate", "set source.postgres.tls.cert and .key"}},
		"another host name": {
			"postgres://plain:hunter2@ADDR",
			map[string]any{"ca": ca["ca"], "server_name": "db.example.com"},
			[]string{"certificate is valid for localhost, not db.example.com", "source.postgres.tls.server_name"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r.Reconfigure("source.postgres.dsn", strings.Replace(tt.dsn, "ADDR", shared.postgres.Addr()+"/"+db.Name(), 1))
			r.Reconfigure("source.postgres.tls", tt.tls)
			out, err := r.Relay.Command(t.Context(), "check")
			for _, text := range tt.says {
				if err == nil || !strings.Contains(out, text) {
					t.Errorf("%s\ndoes not say %s", out, text)
				}
			}
			if strings.Contains(out, "hunter2") {
				t.Errorf("leaked: %s", out)
			}
		})
	}
}
