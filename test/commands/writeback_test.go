package commands

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A table of other software, which reads the status of a row.
const markedConfig = `tables:
  - name: jobs
    columns: {event_id: id, event_type: type, aggregate_id: about, payload: payload, created_at: at}
    write_back:
      pending: status = 'NEW' -- ours
      set: {status: SENT, attempts: 7, sent_at: {sql: "now()"}}
`

// markedTable has IDs of the type.
func (s *site) markedTable(id string) *site {
	s.t.Helper()
	s.sql("CREATE TABLE jobs (id "+id+" PRIMARY KEY, type varchar(100), about varchar(9), payload varchar(100) NOT NULL, "+
		"status varchar(9) NOT NULL DEFAULT 'NEW', attempts int, sent_at timestamp NULL, at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)", "CREATE INDEX by_status ON jobs (status)")
	s.config = markedConfig + s.config
	return s
}

// otherIndex replaces the index on the status, which on MySQL and MariaDB has the ID, too.
func (s *site) otherIndex() *site {
	s.t.Helper()
	drop := "DROP INDEX by_status"
	if s.mysql != nil {
		drop += " ON jobs"
	}
	return s.sql(drop, "CREATE INDEX by_status ON jobs (status, at)")
}

func (s *site) newJob(id any, more string) {
	s.t.Helper()
	s.sql(fmt.Sprintf("INSERT INTO jobs (id, type, about, payload) VALUES ('%v', 'placed', 'a', '{}')%s", id, more))
}

// jobs waits until the rows have these states, in the order of IDs.
func (s *site) jobs(want ...string) {
	s.t.Helper()
	db := s.open()
	eventually(s.t, func() error {
		rows, err := db.QueryContext(s.t.Context(), "SELECT id, status, COALESCE(attempts, 0), sent_at IS NOT NULL FROM jobs ORDER BY id")
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		var got []string
		for rows.Next() {
			var id, status string
			var attempts int
			var sent bool
			if err := rows.Scan(&id, &status, &attempts, &sent); err != nil {
				return err
			}
			if marked := status == "SENT"; sent != marked || (attempts == 7) != marked {
				status += " in part"
			}
			got = append(got, id+" "+status)
		}
		for _, row := range got { // a mark is never taken back
			if id, marked := strings.CutSuffix(row, " SENT"); marked && slices.Contains(want, id+" NEW") {
				s.t.Fatalf("row %s was marked: rows are %q, want %q", id, got, want)
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("rows are %q, want %q", got, want)
		}
		return rows.Err()
	})
}

// Published rows are marked, and no others: not those from before the first position, nor those that were pending when the relay began to
// lead before somebody has said what became of them.
func TestWriteBack(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.markedTable("bigint")
		s.newJob(1, "")
		s.says(0, "table "+s.qualified("jobs")+": has rows that are pending, that of event 1 among them", "setup", "--skip-existing")
		s.says(0, "rows of "+s.qualified("jobs")+" can be marked", "check")
		s.newJob(2, "")
		relay := s.start()
		url := relay.leading()
		s.knowsProblem(url, "2 rows left as found, that of event 1 among them")
		s.newJob(3, ", ('4', 'placed', 'b', '{}')")
		s.jobs("1 NEW", "2 NEW", "3 SENT", "4 SENT")
		s.sql("UPDATE jobs SET status = 'DONE' WHERE id < 3")
		s.knowsProblem(url, "")
		s.newJob(5, "")
		s.jobs("1 DONE", "2 DONE", "3 SENT", "4 SENT", "5 SENT")
		relay.signal(syscall.SIGKILL)

		s.newJob(6, "")
		relay = s.start() // the condition is settled now
		url = relay.leading()
		s.jobs("1 DONE", "2 DONE", "3 SENT", "4 SENT", "5 SENT", "6 SENT")
		s.counts(url, 1)
		relay.stops()
		s.says(0, "position is", "position", "set", "--skip-events", s.positions().Checkpoint)
		s.newJob(7, "")
		relay = s.start() // a position that was set by hand says nothing of rows
		url = relay.leading()
		s.knowsProblem(url, "1 row left as found")
		s.saves(url, "7")
		relay.stops()
		s.consume(s.name, 5)
	})
}

// Where no row is pending behind the first position, setup settles that, and so does a backfill of what is pending.
func TestSetupSettlesWriteBack(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.markedTable("varchar(36)").setup()
		s.newJob("a", "")
		relay := s.start()
		relay.leading()
		s.jobs("a SENT")
		relay.stops()
		s.says(0, "dropped", "teardown", "--yes")
		s.newJob("b", "")
		s.replace("partitions: 3", "partitions: 1")
		s.says(0, "published 1 row", "setup", "--backfill", "--where", "status = 'NEW'")
		s.newJob("c", "")
		relay = s.start()
		relay.leading()
		s.jobs("a SENT", "b SENT", "c SENT")
		relay.stops()
		s.consume(s.name, 3)
	})
}

// While write_back is not configured a relay may drop events. Once it is again, their rows are left as they are.
func TestWriteBackThatWasOff(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.markedTable("varchar(36)").setup()
		marks := s.config[strings.Index(s.config, "    write_back:"):strings.Index(s.config, "source:")]
		s.newJob("a", "")
		relay := s.start()
		relay.leading()
		s.jobs("a SENT")
		relay.stops()
		const drop = "errors: {malformed: drop}\n"
		s.replace(marks, drop)
		relay = s.start()
		url := relay.leading()
		s.sql("INSERT INTO jobs (id, about, payload) VALUES ('dropped', 'a', '{}')")
		s.newJob("published", "")
		s.saves(url, "published")
		relay.stops()
		s.replace(drop, marks)
		relay = s.start()
		s.knowsProblem(relay.leading(), "2 rows left as found, that of event dropped among them")
		s.newJob("z", "")
		s.jobs("a SENT", "dropped NEW", "published NEW", "z SENT")
		relay.stops()
	})
}

// A table that takes the place of another one may have rows that were never published, whether or not it is called as the copy that an
// online schema change makes: what is pending in it is left as it is, also by the next start.
func TestWriteBackOfAReplacedTable(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(s *site) {
		s.markedTable("varchar(36)").setup()
		relay := s.start()
		url := relay.leading()
		s.newJob("a", "")
		s.jobs("a SENT")
		s.sql("CREATE TABLE _jobs_new LIKE jobs", "INSERT INTO _jobs_new (id, type, about, payload) VALUES ('unpublished', 'placed', 'a', '{}')",
			"RENAME TABLE jobs TO _jobs_old, _jobs_new TO jobs")
		s.knowsProblem(url, "1 row left as found, that of event unpublished among them: pending when another table took its place")
		s.newJob("z", "")
		s.jobs("unpublished NEW", "z SENT")
		s.saves(url, "z")
		relay.stops()
		relay = s.start()
		url = relay.leading()
		s.knowsProblem(url, "1 row left as found, that of event unpublished among them: pending when this relay began to lead")
		s.sql("UPDATE jobs SET status = 'SENT', attempts = 7, sent_at = now() WHERE id = 'unpublished'")
		s.knowsProblem(url, "")
		relay.stops()
	})
}

// saves waits until the event is the last one that the relay has published and saved.
func (s *site) saves(url, id string) {
	s.t.Helper()
	eventually(s.t, func() error {
		if last := s.status(url).Checkpoint.LastEventID; last != id {
			return fmt.Errorf("last event is %q", last)
		}
		return nil
	})
}

// qualified is a table's name as the relay prints it.
func (s *site) qualified(table string) string {
	if s.mysql != nil {
		return "NAME." + table
	}
	return "public." + table
}

// knowsProblem waits until the relay says that rows are not marked; "": until it has no problem.
func (s *site) knowsProblem(url, text string) {
	s.t.Helper()
	eventually(s.t, func() error {
		st := s.status(url)
		if text == "" && len(st.Problems) == 0 || text != "" && strings.Contains(fmt.Sprint(st.Problems), text) {
			return nil
		}
		return fmt.Errorf("problems are %v, want %q", st.Problems, text)
	})
}

// Rows of dead letters, and of events that wait behind one, are marked as such, or stay pending until the letter is resolved.
func TestWriteBackOfDeadLetters(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.markedTable("varchar(36)")
		s.replace("event_id: id,", `event_id: {template: "job ${id}"},`) // letters have the event's ID
		s.config += "errors: {malformed: dead_letter}\n"
		s.setup()
		relay := s.start()
		relay.leading()
		s.newJob("bad", "")
		s.sql("INSERT INTO jobs (id, about, payload) VALUES ('1', 'a', '{}')") // without a type, and behind it two of its key
		s.newJob("2", ", ('3', 'placed', 'a', '{}')")
		s.sql("INSERT INTO jobs (id, type, about, payload) VALUES ('4', 'placed', 'b', '{}')")
		s.jobs("1 NEW", "2 NEW", "3 NEW", "4 SENT", "bad SENT")
		relay.stops()
		s.replace("    write_back:\n", "    write_back:\n      on_dead_letter: {status: DEAD}\n")
		relay = s.start()
		relay.leading()
		s.jobs("1 DEAD", "2 DEAD", "3 DEAD", "4 SENT", "bad SENT")
		s.sql("UPDATE jobs SET status = 'NEW' WHERE id = '3'")
		s.jobs("1 DEAD", "2 DEAD", "3 DEAD", "4 SENT", "bad SENT")
		s.says(0, "", "dlq", "drop", "--all", "--yes")
		s.sql("UPDATE jobs SET status = 'NEW' WHERE id <> '4'")
		s.jobs("1 SENT", "2 SENT", "3 SENT", "4 SENT", "bad SENT")
		relay.stops()
	})
}

// A row is told from others by its ID, whatever the type: the row of a dead letter stays as it is, and those whose IDs are like it are marked.
func TestWriteBackByID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ on, kind, letter, next string }{
		{"postgres", "uuid", "'ABCDEF00-0000-7000-8000-000000000001'", "'abcdef00-0000-7000-8000-000000000002'"},
		{"postgres", "char(9)", "'Ab'", "'ab'"},
		{"postgres", "numeric(30)", "100000000000000000000001", "100000000000000000000002"},
		{"mysql", "varbinary(20)", "'Ab'", "'ab'"},
		{"mysql", "varbinary(20)", "X'ff00'", "'ff00'"}, // this one's letter has no ID
		{"mysql", "binary(16)", "X'ab000000000000000000000000000100'", "X'ab000000000000000000000000000200'"},
		{"mysql", "decimal(30)", "100000000000000000000001", "100000000000000000000002, 7"},
		{"mysql", "bigint(20) unsigned zerofill", "18446744073709551615", "7"},
		{"mysql", "char(9) CHARACTER SET latin1", "'é'", "'f'"},
		{"mariadb", "decimal(30)", "100000000000000000000001", "100000000000000000000002, 7"},
		{"mariadb", "varbinary(20)", "'Ab'", "'ab'"},
		{"mariadb", "uuid", "'abcdef00-0000-7000-8000-000000000001'", "'abcdef00-0000-7000-8000-000000000002'"},
	} {
		t.Run(c.on+" "+c.kind+" "+c.letter, func(t *testing.T) {
			t.Parallel()
			siteOn(t, c.on).markedByID(c.kind, c.letter, c.next)
		})
	}
}

func (s *site) markedByID(kind, letter, next string) {
	s.t.Helper()
	s.markedTable(kind).otherIndex()
	s.config += "errors: {malformed: dead_letter}\n"
	s.setup()
	relay := s.start()
	relay.leading()
	s.sql("INSERT INTO jobs (id, about, payload) VALUES ("+letter+", 'letter', '{}')", "INSERT INTO jobs (id, type, about, payload) VALUES ("+strings.ReplaceAll(next, ", ", ", 'placed', 'next', '{}'), (")+", 'placed', 'next', '{}')")
	db := s.open()
	eventually(s.t, func() error {
		var letter, next string
		if err := db.QueryRowContext(s.t.Context(), "SELECT MIN(CASE about WHEN 'letter' THEN status END), MIN(CASE about WHEN 'next' THEN status END) FROM jobs").Scan(&letter, &next); err != nil {
			return err
		}
		if letter != "NEW" {
			s.t.Fatalf("the row of a dead letter is marked %s", letter)
		}
		if next != "SENT" {
			return fmt.Errorf("the next row is %s", next)
		}
		return nil
	})
	relay.stops()
}

// A poller that waits for locks, in place of leaving out what is locked, meets no deadlock with marks.
func TestWriteBackBesideAPoller(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.markedTable("bigint").replace("status = 'NEW'", "status IN ('NEW', 'FAILED')")
		s.otherIndex().setup()
		relay := s.start()
		relay.leading()
		var rows strings.Builder
		for i := range 3000 {
			fmt.Fprintf(&rows, ", (%d, 'placed', 'a', '{}')", i+2)
		}
		s.newJob(1, rows.String())
		for db := s.open(); ; {
			left, err := poll(s.t.Context(), db)
			if err != nil {
				s.t.Errorf("the poller met %v", err)
			}
			if s.t.Failed() || !left {
				break
			}
		}
		relay.stops()
	})
}

// poll takes one of the oldest rows, and reports false if there is none.
func poll(ctx context.Context, db *sql.DB) (left bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	rows, err := tx.QueryContext(ctx, "SELECT id FROM jobs WHERE status = 'NEW' ORDER BY at LIMIT 5 FOR UPDATE")
	if err != nil {
		return false, err
	}
	defer func() { _ = rows.Close() }()
	var id int
	for rows.Next() {
		left = true
		if err := rows.Scan(&id); err != nil {
			return false, err
		}
	}
	if err := rows.Err(); err != nil || !left {
		return false, err
	}
	if _, err = tx.ExecContext(ctx, fmt.Sprintf("UPDATE jobs SET status = 'DONE' WHERE id = %d", id)); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// What cannot be marked is named with the way out by check, which a user reads before the relay runs.
func TestWriteBackBadInput(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.markedTable("varchar(36)").setup()
		for _, c := range []struct{ old, with, says, fix string }{
			{"status = 'NEW' -- ours", "stat = 'NEW'", "write_back of table " + s.qualified("jobs"), "correct write_back: pending is what follows WHERE"},
			{"status = 'NEW' -- ours", "status = 'NEW') OR (1 = 1", "write_back of table " + s.qualified("jobs"), "correct write_back"},
			{"status: SENT,", "state: SENT,", "state", "correct write_back"},
			{`{sql: "now()"}`, `{sql: "now("}`, "write_back of table " + s.qualified("jobs"), "correct write_back"},
		} {
			config := s.config
			s.replace(c.old, c.with)
			if r := s.run("check"); !strings.Contains(r.stdout, c.says) || !strings.Contains(r.stdout, c.fix) || !strings.Contains(r.stdout, "fail  write-back: ") || r.code != 3 {
				s.t.Errorf("%s: %s", c.with, r)
			}
			s.config = config
		}
		if s.mysql != nil {
			s.sql("ALTER TABLE jobs MODIFY id bit(16)")
			s.says(3, "column id of table "+s.qualified("jobs")+" has the type BIT", "check")
			s.sql("ALTER TABLE jobs MODIFY id varchar(36)", "ALTER TABLE jobs DROP PRIMARY KEY")
		} else {
			s.sql("ALTER TABLE jobs DROP CONSTRAINT jobs_pkey")
		}
		s.says(0, "column id of table "+s.qualified("jobs")+" has no unique index of its own, by which rows are found. Fix: create a unique index on it", "check")
		s.sql("ALTER TABLE jobs ADD PRIMARY KEY (id)")
		s.enumOfWriteBack()
		// What leaves the row pending is found out when the first row is marked, and undone.
		s.replace("set: {status: SENT, ", "set: {")
		relay := s.start()
		s.newJob("a", "")
		s.knowsProblem(relay.leading(), "would be pending after they are marked: 1 of a batch")
		s.jobs("a NEW")
		relay.stops()
	})
}

// enumOfWriteBack verifies that check tells of a text that is not a value of an ENUM.
func (s *site) enumOfWriteBack() {
	s.t.Helper()
	if s.mysql != nil {
		s.sql("ALTER TABLE jobs ADD COLUMN kind ENUM('SENT', 'NEW') NOT NULL DEFAULT 'NEW'")
	} else {
		s.sql("CREATE TYPE kinds AS ENUM ('SENT', 'NEW')", "ALTER TABLE jobs ADD COLUMN kind kinds NOT NULL DEFAULT 'NEW'")
	}
	config := s.config
	s.replace("status: SENT,", "status: SENT, kind: SNET,")
	s.says(3, "SNET", "check")
	s.config = config
	s.replace("status: SENT,", "status: SENT, kind: SENT,")
	s.says(0, "rows of "+s.qualified("jobs")+" can be marked", "check")
	s.config = config
}

// A role that may only replicate and read is granted what marks need by the setup that check names, and no more.
func TestWriteBackRights(t *testing.T) {
	t.Parallel()
	onAll(t, (*site).marksAsReplicator)
}

func (s *site) marksAsReplicator() {
	s.t.Helper()
	s.asReplicator("marking")
	s.markedTable("varchar(36)")
	fix := "run `cdc-relay setup` with the owner's connection string, or GRANT SELECT, UPDATE ON"
	if s.mysql != nil {
		s.sql("GRANT SELECT ON jobs TO marking")
		fix = "GRANT SELECT, UPDATE ON `" + s.name + "`.`jobs`"
	}
	marks := s.config[strings.Index(s.config, "    write_back:"):strings.Index(s.config, "source:")]
	s.replace(marks, "").setup()
	s.replace("created_at: at}\n", "created_at: at}\n"+marks)
	r := s.raw("", "check")
	if !strings.Contains(r.stdout, "may not mark rows of ") || !strings.Contains(r.stdout, fix) {
		s.t.Fatalf("check: %s", r)
	}
	if s.mysql != nil {
		s.says(0, "done: ", "setup")
	} else {
		_, said, _ := strings.Cut(r.stdout, "may not mark")
		s.follows(0, "done: ", said, "setup")
	}
	s.says(0, "rows of "+s.qualified("jobs")+" can be marked", "check")
	relay := s.start()
	relay.leading()
	s.newJob("a", "")
	s.jobs("a SENT")
	relay.stops()
}

// writeBackKills is how often the relay is killed, each time while it marks rows.
const writeBackKills = 4

// Killed again and again, with and without a standby that takes over, the relay marks no row whose event is not in Kafka, and in the end each row.
func TestWriteBackAfterKills(t *testing.T) {
	t.Parallel()
	for _, delivery := range []string{"at-least-once", "exactly-once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			onAll(t, func(s *site) {
				s.markedTable("bigint").config += "delivery: " + delivery + "\n"
				s.setup()
				s.killedWhileMarking(rand.New(rand.NewPCG(1, 2)))
			})
		})
	}
}

func (s *site) killedWhileMarking(random *rand.Rand) {
	s.t.Helper()
	db := s.open()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	var writers errgroup.Group
	for w := range 2 {
		writers.Go(func() error { return writeJobs(ctx, db, w) })
	}
	next := s.start()
	for kill := range writeBackKills {
		relay := next
		relay.leading()
		if kill%2 == 0 { // a standby takes over, otherwise another relay starts later
			next = s.start()
			next.await("standing by")
		}
		before := s.sent(db)
		eventually(s.t, func() error {
			if n := s.sent(db); len(n) <= len(before) {
				return errors.New("no row is marked")
			}
			return nil
		})
		select { // another moment of a sweep each time
		case <-time.After(time.Duration(random.IntN(1000)) * time.Millisecond):
		case <-s.t.Context().Done():
		}
		relay.signal(syscall.SIGKILL)
		s.wantPublished(s.sent(db))
		if kill%2 == 1 {
			next = s.start()
		}
	}
	cancel()
	if err := writers.Wait(); err != nil {
		s.t.Error(err)
	}
	next.leading()
	eventually(s.t, func() error {
		var pending int
		if err := db.QueryRowContext(s.t.Context(), "SELECT COUNT(*) FROM jobs WHERE status <> 'SENT'").Scan(&pending); err != nil || pending > 0 {
			return fmt.Errorf("%d rows are pending: %w", pending, err)
		}
		return nil
	})
	next.stops()
	s.wantPublished(s.sent(db))
}

// writeJobs commits rows until ctx ends: IDs of two writers, some of which are committed late or rolled back.
func writeJobs(ctx context.Context, db *sql.DB, writer int) error {
	for n := writer; ; n += 6 {
		if err := writeJob(ctx, db, n); ctx.Err() != nil || err != nil {
			if ctx.Err() != nil {
				err = nil
			}
			return err
		}
	}
}

func writeJob(ctx context.Context, db *sql.DB, n int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	for i := range 3 {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO jobs (id, type, about, payload) VALUES (%d, 'placed', '%d', '{}')", n+2*i, n%5)); err != nil {
			return err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
	if n%7 == 0 {
		return nil
	}
	return tx.Commit()
}

// sent returns the IDs of rows that are marked.
func (s *site) sent(db *sql.DB) (ids []string) {
	s.t.Helper()
	rows, err := db.QueryContext(s.t.Context(), "SELECT id FROM jobs WHERE status = 'SENT'")
	testenv.Must(s.t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		testenv.Must(s.t, rows.Scan(&id))
		ids = append(ids, id)
	}
	testenv.Must(s.t, rows.Err())
	return ids
}

// wantPublished reads the topic until it has had the events of all rows that are marked.
func (s *site) wantPublished(ids []string) {
	s.t.Helper()
	client := s.kafkaClient(kgo.ConsumeTopics(s.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer client.Close()
	missing := map[string]bool{}
	for _, id := range ids {
		missing[id] = true
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for len(missing) > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			cdctest.Violation(s.t, cdctest.Lost, "%d of %d rows are marked, and their events are not published: %.200s", len(missing), len(ids), slices.Sorted(maps.Keys(missing)))
			return
		}
		fetches.EachRecord(func(r *kgo.Record) { delete(missing, header(r, "ce_id")) })
	}
}
