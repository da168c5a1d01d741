package commands

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// positions is the output of position show -o json.
type positions struct {
	Slot, Checkpoint string
	WALEnd           string `json:"wal_end"`
	Next             string `json:"next_start"`
	LastCommit       string `json:"last_outbox_commit"`
	LastEventID      string `json:"last_event_id"`
}

func (s *site) positions() positions {
	s.t.Helper()
	r := s.raw("", "position", "show", "-o", "json")
	var p positions
	if err := json.Unmarshal([]byte(r.stdout), &p); err != nil || r.code != 0 {
		s.t.Fatalf("position show: %v: %s", err, r)
	}
	return p
}

// publish runs a relay until the event is published, and verifies how many events this run published.
func (s *site) publish(id, want int) {
	s.t.Helper()
	relay := s.start()
	url := relay.leading()
	s.published(url, id)
	s.counts(url, want)
	relay.stops()
}

func (s *site) want(code int, says string, args ...string) {
	s.t.Helper()
	if r := s.run(args...); r.code != code || strings.TrimSpace(r.stdout+r.stderr) != says {
		s.t.Errorf("%s: %s", args, r)
	}
}

// A move back repeats, a move forward skips, and an impossible position is refused. The test has its own server, which it
// crashes to move the slot behind the checkpoint.
//
//covers:postgres 13 state
func TestPositionSet(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, testenv.Postgres(t, testenv.PostgresOptions{Durable: true})).setup()
	s.sql("CHECKPOINT").insert(1, 2)
	s.publish(2, 2)
	testenv.Must(t, s.pg.Restart(t.Context(), testenv.Immediate))
	golden(t, "position.txt", s.run("position", "show").stdout)
	p := s.positions()
	if p.Slot == p.Checkpoint || p.Next != p.Checkpoint || p.LastEventID != eventID(2) {
		t.Fatalf("the slot is not behind: %+v", p)
	}

	s.want(0, "position is LSN now, as it was", "position", "set", p.Checkpoint)
	s.want(5, "cdc-relay: LSN lies before LSN, where the slot stands, and PostgreSQL has removed the WAL before that. "+
		"Fix: publish what consumers miss with `cdc-relay repair --since TIME`.", "position", "set", "0/1")
	s.want(2, "cdc-relay: LSN lies beyond LSN, the end of the server's WAL. Fix: give a position that exists already.", "position", "set", "FF/0")
	s.want(2, `cdc-relay: "yesterday" is not an LSN. Fix: write it as PostgreSQL prints it (LSN) or as 16 hex digits.`, "position", "set", "yesterday")
	s.want(0, "position is LSN now; SIZE of WAL repeated, whose events are published again", "position", "set", p.Slot)
	s.insert(3).publish(3, 3)

	end := s.insert(4).positions().WALEnd
	s.want(2, "cdc-relay: LSN skips SIZE of WAL, whose unpublished events would never be published. Fix: give --skip-events if that is meant.",
		"position", "set", end)
	s.want(0, "position is LSN now; SIZE of WAL skipped, whose unpublished events will never be published", "position", "set", "--skip-events", end)
	if p := s.positions(); p.Slot != end || p.Checkpoint != end || p.LastCommit != "" {
		t.Errorf("forward to %s: %+v", end, p)
	}
	s.insert(5).publish(5, 1)

	s.sql("ALTER PUBLICATION " + s.slot() + " DROP TABLE outbox").insert(6).sql("ALTER PUBLICATION " + s.slot() + " ADD TABLE outbox")
	s.says(2, "afterwards nothing would tell that events are missing", "position", "set", s.positions().Checkpoint)
	s.follows(0, "published 6 rows", s.says(2, "afterwards nothing would tell", "position", "reset"), "repair")
	if p := s.positions(); p.LastCommit != "" { // rows of what was altered may come from before the position
		t.Errorf("repair keeps the last commit: %+v", p)
	}
}

// A checkpoint that contradicts the slot stops the run, and position reset resolves it.
func TestPositionReset(t *testing.T) {
	t.Parallel()
	s := newSite(t).setup().insert(1)
	s.want(0, "no checkpoint is stored in redis REDIS, key cdc-relay:{NAME}: the next run continues from slot SLOT", "position", "reset")
	s.publish(1, 1)
	s.insert(2).sql("SELECT pg_replication_slot_advance('" + s.slot() + "', pg_current_wal_lsn())")
	var text strings.Builder
	for _, command := range []string{"run", "check", "position show", "position reset", "position reset --skip-events", "check"} {
		r := s.run(strings.Fields(command)...)
		text.WriteString("$ cdc-relay " + command + "\n" + strings.Join(r.point(), "\n") + "\n")
	}
	golden(t, "reset.txt", text.String())
	s.insert(3).publish(3, 1) // that after the slot
}

func TestCheckpointOfAnotherRelayIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t).setup().insert(1)
	s.publish(1, 1)
	s.replace("postgres: {", "postgres: {slot: "+s.name+"_two, publication: "+s.slot()+", ").says(0, "created", "setup", "--skip-existing")
	r := s.run("run")
	if r.code != 5 || !strings.Contains(r.stderr, "`cdc-relay position reset`") {
		t.Errorf("run: %s", r)
	}
	s.dropSlot()
	s.says(5, "checkpoint", "repair") // leaves no slot, which would keep WAL
	s.sql("DO $$BEGIN ASSERT NOT EXISTS (SELECT FROM pg_replication_slots WHERE database = current_database()); END$$")
	s.says(0, "created", "setup", "--skip-existing")
	s.says(0, "", "position", "reset")
	s.says(0, "", "check")
}

// A configuration that leaves out a table which the last run published does not pass over its rows: a deployment may have been rolled back.
func TestTableThatIsNotNamedAnyMore(t *testing.T) {
	t.Parallel()
	s := newSite(t).setup().sql("CREATE TABLE more (id bigint PRIMARY KEY, kind varchar(9) NOT NULL, body varchar(9) NOT NULL, at timestamp NOT NULL)")
	one := s.config
	both := "tables: [{name: outbox}, {name: more, columns: {event_id: id, event_type: kind, payload: body, created_at: at}}]\n" + one
	s.config = both
	s.says(0, "done", "setup", "--skip-existing")
	written := 0
	write := func() *site {
		written++
		return s.sql(fmt.Sprintf("INSERT INTO more VALUES (%d, 'Paid', '{}', '2026-01-02')", written)).insert(written)
	}
	write().publish(1, 2)

	s.config = one
	write().says(5, "the last run published the rows of public.more, which tables does not name now", "run")
	s.says(3, "public.more", "check")
	s.says(5, "public.more", "repair")
	s.says(2, "without the checkpoint nothing would tell", "position", "reset")
	s.config = both
	s.publish(2, 2)

	s.config = one
	s.follows(0, "as it was", s.raw("", "run").stderr, "position set")
	write().publish(3, 1)
	s.config = both
	write().publish(4, 2) // the row in between was passed over

	s.config = one // one that the publication does not hold any more
	s.sql("ALTER PUBLICATION "+s.slot()+" DROP TABLE more").insert(5).publish(5, 1)
	s.sql("ALTER PUBLICATION " + s.slot() + " ADD TABLE more")
	s.config = both
	s.says(0, "done", "repair", "--all")

	s.config = one
	s.sql("SELECT pg_terminate_backend(active_pid, 60000), pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '" + s.slot() + "'")
	s.follows(0, "", s.says(5, "public.more", "repair"), "position reset")
	s.says(0, "done", "repair", "--all")
	if n := s.records(s.name); n != 2+2+1+2+1+9+5 {
		t.Errorf("%d records", n)
	}
}
