package commands

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// status returns the output of `cdc-relay status`.
func (s *site) status(url string) admin.Status {
	s.t.Helper()
	r := s.raw("", "status", "--url", url, "-o", "json")
	var st admin.Status
	if err := json.Unmarshal([]byte(r.stdout), &st); err != nil || r.code != 0 {
		s.t.Fatalf("status: %v: %s", err, r)
	}
	return st
}

// published waits until the relay has saved the event's ID.
func (s *site) published(url string, id int) {
	s.t.Helper()
	s.saves(url, eventID(id))
}

// counts verifies how many events a relay has published. More than that are repeats.
func (s *site) counts(url string, want int) {
	s.t.Helper()
	switch n := int(s.status(url).Counters["events_published"]); {
	case n > want:
		cdctest.Violation(s.t, cdctest.Duplicates, "%d events were published, want %d", n, want)
	case n < want:
		s.t.Errorf("%d events were published, want %d", n, want)
	}
}

// A connection to another machine that does not require TLS is logged once, at the start.
func TestRunWarnsOfPlaintext(t *testing.T) {
	t.Parallel()
	relay := newSite(t).setup().replace(redis.Addr(), "redis.invalid:6379").start()
	relay.await(`level=WARN msg="check the configuration" warning="the connection to Redis at redis.invalid:6379 does not require TLS.*fix="set checkpoint.redis.tls"`)
}

// After setup, a relay whose role may only replicate publishes an event and exits with 0 after SIGTERM.
func TestRun(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.asReplicator("run_relay")
		s.setup()
		s.env = nil
		if r := s.run("check"); r.code != 0 || strings.Contains(r.stdout, "superuser") {
			s.t.Errorf("check: %s", r)
		}
		relay := s.start()
		url := relay.leading()
		s.insert(1, 2).published(url, 2)
		eventually(s.t, func() error {
			if s.mysql == nil && s.status(url).Slot == nil {
				return errors.New("the slot has not been read yet")
			}
			return nil
		})
		if st := s.status(url); st.State != "leading" || !st.Ready {
			s.t.Errorf("status: %+v", st)
		}
		s.counts(url, 2)
		golden(s.t, map[bool]string{true: "status.txt", false: "status_" + s.flavor() + ".txt"}[s.mysql == nil], ages(s.run("status", "--url", url).String()))
		relay.stops()
	})
}

// flavor is "" on PostgreSQL.
func (s *site) flavor() string {
	if s.mysql == nil {
		return ""
	}
	return s.mysql.Flavor
}

// asReplicator runs the relay with a role that may only replicate; setup has the rights of the owner.
func (s *site) asReplicator(role string) {
	s.t.Helper()
	if s.mysql == nil {
		s.sql("CREATE ROLE "+role+" LOGIN REPLICATION").replace("postgres@", role+"@")
		s.env = []string{"CDC_RELAY_OWNER_DSN=" + s.pg.DSN(s.name, "")}
		return
	}
	s.sql("CREATE USER "+role, "GRANT "+s.mysql.ReplicationRights()+" ON *.* TO "+role).replace("root@", role+"@")
	s.env = []string{"CDC_RELAY_OWNER_DSN=" + s.mysql.DSN(s.name, "")}
}

// A second relay for the same database stands by, no command moves the position beside the leader, and it takes over when that ends.
//
//covers:all 7 state
//covers:binlogs 13 state
func TestStandby(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		relay := s.setup().start()
		url := relay.leading()
		second := s.start()
		holder, position := `replication slot ".*" is active for PID \d+ from 127\.0\.0\.1`, "0/1"
		if s.mysql != nil {
			holder, position = `connection \d+ of the server \(from 127\.0\.0\.1:\d+\) holds the lock ".*"`, s.positions().Checkpoint
		}
		second.namesLeader(holder)
		if line := second.await(`msg="standing by".*`); !strings.Contains(line, "another relay leads: ") {
			s.t.Errorf("standing by: %s", line)
		}
		s.says(0, "", "check")
		beside := regexp.MustCompile(`(is being read|a relay runs) \((PID|connection) .*Fix: stop (its relay|it) first`)
		for _, command := range []string{"position reset", "position set " + position, "teardown", "teardown --drop-table --yes"} {
			if r := s.run(strings.Fields(command)...); r.code != 1 || !beside.MatchString(r.stderr) {
				s.t.Errorf("%s: %s", command, r)
			}
		}
		s.insert(1).published(url, 1)
		relay.stops()
		url = second.leading()
		s.insert(2).published(url, 2)
		second.stops()
		if s.mysql != nil {
			s.says(0, "", "position", "reset")
		}
	})
}

// A dry run prints records and moves nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) { s.dryRun() })
}

func (s *site) dryRun() {
	t := s.t
	t.Helper()
	s.setup()
	before := s.run("position", "show").stdout
	cmd := s.command("run", "--dry-run")
	stdout, err := cmd.StdoutPipe()
	testenv.Must(t, err)
	relay := s.inBackground(cmd)
	relay.await("msg=leading")
	s.insert(1)
	var record struct {
		Topic, Key, Value string
		Headers           map[string]string
	}
	testenv.Must(t, json.NewDecoder(stdout).Decode(&record))
	if record.Topic != s.name || record.Key != "42" || record.Value != "{}" || record.Headers["ce_id"] != eventID(1) {
		t.Errorf("record: %+v", record)
	}
	if code := relay.signal(syscall.SIGINT); code != 0 {
		t.Errorf("SIGINT: exit %d", code)
	}
	if after := s.run("position", "show").stdout; after != before {
		t.Errorf("it moved something:\n%s\n%s", before, after)
	}
}

// ages replaces what changes with time.
func ages(text string) string {
	for _, r := range []struct{ pattern, with string }{
		{`(?m)^last error .*coordinat.*\n`, ""}, // Kafka's transaction coordinator may not be ready for the first relay
		{`[0-9hms.]+ ago`, "AGE ago"},
		{`(leading for|events in) [0-9hms.]+`, "$1 AGE"},
		{`lag( +).*`, "lag${1}LAG"},
		{`version( +).*`, "version${1}VERSION"},
		{`generation [0-9]+`, "generation N"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	return text
}
