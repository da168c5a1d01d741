package commands

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// A table of another software, of which only new events are published, and whose times are those of a clock far ahead of UTC.
const onlyConfig = `tables:
  - name: jobs
    columns: {event_id: id, event_type: type, payload: payload, occurred_at: created_at, created_at: created_at}
    only: {status: "NEW|CREATED"}
    time_zone: Pacific/Kiritimati
`

const onlyTable = `CREATE TABLE jobs (id varchar(36) PRIMARY KEY, type varchar(100), payload varchar(100) NOT NULL,
	status varchar(20), created_at TIME_TYPE NOT NULL, available_at TIME_TYPE)`

// Rows that tables[].only leaves out are no events: they are counted, malformed or not, the position passes them, and a replay that names
// them publishes them all the same. A time without a zone is of tables[].time_zone wherever it is shown, looked for, or tells how old a row is.
func TestOnlyAndTimeZone(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		if s.mysql == nil {
			s.onlyAndTimeZone("timestamp", "now() AT TIME ZONE 'Pacific/Kiritimati' - interval '%d hours'")
		} else {
			s.onlyAndTimeZone("datetime(6)", "UTC_TIMESTAMP(6) + INTERVAL 14 HOUR - INTERVAL %d HOUR")
		}
	})
}

// onlyAndTimeZone has the type of a time without a zone, and the expression for the time some hours ago in that zone.
func (s *site) onlyAndTimeZone(timeType, hoursAgo string) {
	s.t.Helper()
	s.sql(strings.ReplaceAll(onlyTable, "TIME_TYPE", timeType))
	s.config = onlyConfig + s.config + "retention: {keep: 1d}\n"
	s.setup()
	if r := s.run("check"); !strings.Contains(r.stdout, "column available_at is not read: an event is published when it is committed") || strings.Contains(r.stdout, "is read as UTC") {
		s.t.Errorf("check: %s", r)
	}
	insert := func(id, typ, status, at string) {
		s.sql(fmt.Sprintf("INSERT INTO jobs (id, type, payload, status, created_at, available_at) VALUES ('%s', %s, '{}', %s, %s, %[4]s)", id, typ, status, at))
	}
	relay := s.start()
	url := relay.leading()
	insert("new", "'placed'", "'NEW'", "'2038-07-15 02:30:00.25'")
	insert("sent", "'placed'", "'SENT'", "'2038-07-15 02:30:00'")
	insert("malformed", "NULL", "'DRAFT'", "'2038-07-10 02:30:00'")
	insert("null", "'placed'", "NULL", "'2038-07-15 02:30:00'")
	insert("created", "'placed'", "'CREATED'", fmt.Sprintf(hoursAgo, 23))
	s.leavesOut(url, 3, 2)
	s.sql("UPDATE jobs SET status = 'SENT' WHERE id = 'new'", "UPDATE jobs SET status = 'NEW' WHERE id = 'sent'")
	for i := range 5 {
		insert(fmt.Sprintf("old-%d", i), "'placed'", "'SENT'", fmt.Sprintf(hoursAgo, 25))
	}
	s.leavesOut(url, 8, 2)
	relay.signal(syscall.SIGKILL)

	relay = s.start()
	url = relay.leading()
	insert("last", "'placed'", "'NEW'", "'2038-07-16 02:30:00'")
	s.leavesOut(url, 0, 1) // the position was behind those that were left out last
	s.findsInZone()
	for i := range 5 { // retention
		eventually(s.t, func() error {
			if r := s.run("replay", "--dry-run", "--id", fmt.Sprintf("old-%d", i)); !strings.Contains(r.stderr, "no event in the outbox matches") {
				return fmt.Errorf("a row of 25 hours ago: %s", r)
			}
			return nil
		})
	}
	s.says(0, "1 event would be published", "replay", "--dry-run", "--id", "created")
	relay.stops()
	if said := s.says(0, "published 3 rows", "repair", "--all"); !strings.Contains(said, "left out 3 rows, as tables[].only says of what they hold now\n") || strings.Contains(said, "stopping") {
		s.t.Errorf("repair: %s", said)
	}
	const want = 3 + 1 + 3 // events, those of a replay and of the repair
	if n := s.records(s.name); n != want {
		s.t.Errorf("%d records, want %d", n, want)
	}
	times := map[string]string{}
	for _, r := range s.consume(s.name, want) {
		times[header(r, "ce_id")] = header(r, "ce_time")
	}
	for id, at := range map[string]string{"new": "2038-07-14T12:30:00.25Z", "null": "2038-07-14T12:30:00Z", "sent": "2038-07-14T12:30:00Z", "last": "2038-07-15T12:30:00Z"} {
		if times[id] != at {
			s.t.Errorf("the time of %s is %q, want %s", id, times[id], at)
		}
	}
}

// leavesOut waits until the relay has left out and published that many rows, and has saved its position behind them.
func (s *site) leavesOut(url string, out, published int) {
	s.t.Helper()
	eventually(s.t, func() error {
		st := s.status(url)
		if n, m := int(st.Counters["events_dropped"]), int(st.Counters["events_published"]); n != out || m != published {
			return fmt.Errorf("%d rows are left out, want %d; %d are published, want %d", n, out, m, published)
		}
		return nil
	})
	eventually(s.t, func() error { // asked only now: the counters may be newer than the rest of a status
		if st := s.status(url); st.InFlight.Events > 0 {
			return fmt.Errorf("%d events are in flight", st.InFlight.Events)
		}
		return nil
	})
}

// findsInZone asks commands for rows by their time, and by their ID.
func (s *site) findsInZone() {
	s.t.Helper()
	s.says(0, "3 events would be published", "replay", "--dry-run", "--since", "2038-07-14T12:30:00Z", "--until", "2038-07-14T12:30:00.250001Z")
	s.says(0, "1 event would be published", "replay", "--dry-run", "--since", "2038-07-14T12:30:00.25Z", "--until", "2038-07-15T00:00:00Z")
	s.says(0, "tables[0].only leaves the row out", "event", "null")
	if r := s.raw("", "event", "null"); !strings.Contains(r.stdout, "created at 2038-07-14T12:30:00Z") {
		s.t.Errorf("event: %s", r)
	}
	s.says(1, "tables[0].only leaves the row out", "route", "--row", `{"id": "1", "type": "a", "payload": "b"}`)
	s.says(0, "1 event published", "replay", "--yes", "--id", "null")
}
