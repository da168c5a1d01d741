package commands

import (
	"bufio"
	"cmp"
	"io"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The owner's connection string of production is in the environment of a command for staging, with the same names: it stops, and changes nothing.
func TestOwnerOnAnotherServer(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		var other *site
		owner := func() string { return other.pg.DSN(s.name, "") }
		if s.mysql == nil {
			other = newSiteOn(s.t, testenv.Postgres(s.t, testenv.PostgresOptions{}))
		} else {
			flavor := cmp.Or(map[string]string{testenv.MySQLFlavor: testenv.MariaDBFlavor}[s.mysql.Flavor], testenv.MySQLFlavor)
			other = newMySQLSite(s.t, flavor)
			owner = func() string { return other.mysql.UserDSN("root", "", s.name, "") }
		}
		other.replace(`{redis: {addrs: ["`+redis.Addr()+`"]}}`, "{file: other.json}").setup().insert(1)
		stops := func(commands ...string) {
			s.env = []string{"CDC_RELAY_OWNER_DSN=" + owner()}
			for _, command := range commands {
				s.says(2, "leads to another server (", strings.Fields(command)...)
			}
			s.env = nil
		}
		stops("setup")
		s.setup().insert(2)
		stops("setup", "teardown --drop-table --yes", "retention run --ahead 9", "replay --key 42", "event "+eventID(1), "repair")
		s.says(0, "", "check")
		other.says(0, "", "check")
		other.says(0, "1 event", "replay", "--key", "42")
	})
}

// A relay that starts while teardown asks keeps what it needs.
func TestTeardownAsksWhileRelayStarts(t *testing.T) {
	t.Parallel()
	s := newSite(t).setup()
	cmd := s.command("teardown")
	in, err := cmd.StdinPipe()
	testenv.Must(t, err)
	stderr, err := cmd.StderrPipe()
	testenv.Must(t, err)
	testenv.Must(t, cmd.Start())
	said := bufio.NewReader(stderr)
	_, err = said.ReadString('?')
	testenv.Must(t, err)
	relay := s.start()
	relay.leading()
	_, err = io.WriteString(in, "yes\n")
	testenv.Must(t, err)
	answer, _ := io.ReadAll(said)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(answer), "is being read") {
		t.Errorf("%v: %s", err, answer)
	}
	relay.stops()
	s.says(0, "", "check")
}

// The procedure that an owner's run makes is that of every run: one that finds the partitions locked leaves it to the other.
func TestOwnersRunsOverlap(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(s *site) {
		table := outbox.Name{Schema: s.setup().name, Table: "outbox"}
		other, err := s.open().Conn(s.t.Context())
		testenv.Must(s.t, err)
		defer func() { _ = other.Close() }()
		_, err = other.ExecContext(s.t.Context(), "DO GET_LOCK(?, 0)", outbox.MySQLPartitionLock(table))
		testenv.Must(s.t, err)
		procedure := outbox.MySQLOnceRoutine(table).MySQL()
		s.sql("CREATE PROCEDURE " + procedure + "() DO 1")
		s.says(1, "another process maintains its partitions", "retention", "run", "--ahead", "9", "--owner-dsn", s.mysql.UserDSN("root", "", s.name, ""))
		s.sql("CALL " + procedure + "()")
	})
}
