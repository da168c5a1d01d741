package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// answering returns the address of a server that answers the first 8 bytes of each connection with one byte.
func answering(t *testing.T, with byte) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(conn, make([]byte, 8))
			_, _ = conn.Write([]byte{with})
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// An error with several hosts says what each answered, and is final only where no host may come back.
func TestEachHostsAnswer(t *testing.T) {
	away, plain, plain2 := closedPort(t), answering(t, 'N'), answering(t, 'N')
	for name, tt := range map[string]struct {
		hosts string
		says  []string
		final bool
	}{
		"one away, one without TLS": {away + "," + plain, []string{away + ": connection refused", plain + ": server refused TLS"}, false},
		"both without TLS":          {plain + "," + plain2, []string{plain + ": server refused TLS", plain2 + ": server refused TLS"}, true},
		"one host":                  {plain, []string{plain + " does not offer TLS"}, true},
		"one host that is away":     {away, []string{away + " cannot be reached"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := fmt.Sprintf("postgres://u@%s/d?sslmode=require", tt.hosts)
			_, err := ConnectReplication(t.Context(), Options{DSN: func(context.Context) (string, error) { return dsn, nil }})
			var stop *cdc.StopError
			if errors.As(err, &stop) != tt.final || cdc.Fix(err) == "" {
				t.Errorf("final: %v, want %v: %v", !tt.final, tt.final, cdc.Explain(err))
			}
			for _, says := range tt.says {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("it does not say %q: %v", says, err)
				}
			}
		})
	}
}

// From PostgreSQL 19 on wal_level = replica is enough; nothing is before it.
func TestWALLevels(t *testing.T) {
	for _, tt := range []struct {
		version     int
		level, says string
	}{
		{130000, "logical", "PostgreSQL 13 is too old"},
		{140000, "logical", ""},
		{180006, "replica", "wal_level is replica, not logical"},
		{190000, "logical", ""},
		{190000, "replica", ""},
		{190000, "minimal", "wal_level is minimal, not replica or logical"},
	} {
		err := ServerProblem(tt.version, tt.level)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%d with wal_level = %s: %v, want %q", tt.version, tt.level, err, tt.says)
		}
	}
}

func TestPlainLSN(t *testing.T) {
	for text, want := range map[string]string{"0/01BAFC30": "0/1BAFC30", "0/1BAFC30": "0/1BAFC30", "A/000000FF": "A/FF", "": ""} {
		if got := plainLSN(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// A slot is taken for lost only where PostgreSQL says so: another object that is not in the state that a command needs has the same
// SQLSTATE.
func TestAnswersToStartReplication(t *testing.T) {
	for said, want := range map[string]string{
		`can no longer access replication slot "wal_level"`:                                      SlotLost,
		`can no longer get changes from replication slot "s"`:                                    SlotLost,
		`cannot read from logical replication slot "s"`:                                          SlotLost,
		`logical decoding requires "wal_level" >= "logical"`:                                     "wal_level",
		"logical decoding on standby requires wal_level >= logical on the primary":               "wal_level",
		"replication slots can only be used if wal_level >= replica":                             "wal_level",
		`logical decoding on standby requires "effective_wal_level" >= "logical" on the primary`: "wal_level", // 19
		`cannot use replication slot "s" for logical decoding`:                                   "",
		"cannot use physical replication slot for logical decoding":                              "",
		`replication slot "s" was not created in this database`:                                  "",
		"logical decoding requires a database connection":                                        "",
		`replication slots can only be used if "max_replication_slots" > 0`:                      "",
	} {
		err := ReplicationError(&pgconn.PgError{Code: stateObjectNotInPrerequisiteState, Message: said}, "s")
		if got := cdc.ReasonOf(err); got != want || want != "wal_level" && !strings.Contains(err.Error(), said) {
			t.Errorf("%s: reason %q, want %q: %v", said, got, want, err)
		}
	}
}

// What is done afterwards keeps the slot from being lost for the same reason again.
func TestLostSlots(t *testing.T) {
	for reason, then := range map[string]string{"": "raise max_slot_wal_keep_size", "wal_removed": "raise max_slot_wal_keep_size", "idle_timeout": "set idle_replication_slot_timeout to 0", "rows_removed": "TIME`"} {
		err := SlotRow{SlotType: "logical", Plugin: "pgoutput", WALStatus: "lost", InvalidationReason: reason}.Usable("s", "")
		if cdc.ReasonOf(err) != SlotLost || !strings.HasSuffix(cdc.Fix(err), then) {
			t.Errorf("%q: %s", reason, cdc.Explain(err))
		}
	}
}

// What libpq keeps to itself is not sent to the server, which would refuse it. What would make the connection safer is.
func TestParametersOfLibpq(t *testing.T) {
	cfg, err := pgconn.ParseConfig("host=h keepalives=1 keepalives_idle=30 keepalives_interval=9 keepalives_count=3 tcp_user_timeout=1 load_balance_hosts=random gssencmode=disable sslcrl=x search_path=a")
	if err != nil {
		t.Fatal(err)
	}
	forLibpq(cfg)
	if got := fmt.Sprint(cfg.RuntimeParams); got != "map[search_path:a sslcrl:x]" {
		t.Errorf("sent are %s", got)
	}
}
