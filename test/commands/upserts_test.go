package commands

import (
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// written is a statement, and the event that it makes: ID, payload, type and tenant.
type written struct{ statement, event string }

// Of an upsert and a REPLACE the rows are published that the database inserts, and not those that it updates. In the binlog a generated column
// is one like others.
func TestUpsertsAndGeneratedColumns(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.sql(`CREATE TABLE events (id varchar(40) PRIMARY KEY, number int UNIQUE, body text NOT NULL, at timestamp NOT NULL DEFAULT now(),
			loud varchar(40) GENERATED ALWAYS AS (upper(body)) STORED)`)
		parts, statements := "event_type: {const: said}, tenant_id: {const: acme}", []written{
			{"INSERT INTO events (id, body) VALUES ('1', 'a') ON CONFLICT (id) DO UPDATE SET body = 'updated'", "1 a said acme"},
			{"INSERT INTO events (id, body) VALUES ('1', 'b') ON CONFLICT (id) DO UPDATE SET body = 'updated'", ""},
			{"INSERT INTO events (id, body) VALUES ('1', 'c') ON CONFLICT DO NOTHING", ""},
			{"INSERT INTO events (id, body) VALUES ('1', 'd'), ('2', 'e') ON CONFLICT (id) DO UPDATE SET body = excluded.body", "2 e said acme"},
			{"MERGE INTO events USING (VALUES ('2', 'f'), ('3', 'g')) AS v (i, b) ON id = i WHEN MATCHED THEN UPDATE SET body = b WHEN NOT MATCHED THEN INSERT (id, body) VALUES (i, b)", "3 g said acme"},
			{"WITH gone AS (DELETE FROM events WHERE id = '3' RETURNING *) INSERT INTO events (id, body) SELECT '4', body FROM gone", "4 g said acme"},
			{"INSERT INTO events (id, body) VALUES ('end', 'x')", "end x said acme"},
		}
		if s.mysql != nil {
			s.sql("ALTER TABLE events ADD whisper varchar(40) GENERATED ALWAYS AS (lower(body)) VIRTUAL")
			parts, statements = "event_type: loud, tenant_id: whisper", []written{
				{"INSERT INTO events (id, body) VALUES ('1', 'a') ON DUPLICATE KEY UPDATE body = 'updated'", "1 a A a"},
				{"INSERT INTO events (id, body) VALUES ('1', 'b') ON DUPLICATE KEY UPDATE body = 'updated'", ""},
				{"INSERT IGNORE INTO events (id, body) VALUES ('1', 'c')", ""},
				{"INSERT INTO events (id, body) VALUES ('1', 'd'), ('2', 'e') ON DUPLICATE KEY UPDATE body = VALUES(body)", "2 e E e"},
				{"REPLACE INTO events (id, body, number) VALUES ('3', 'f', 1)", "3 f F f"},
				{"REPLACE INTO events (id, body, number) VALUES ('3', 'g', 2)", "3 g G g"}, // the database deletes a row that the first key finds
				{"REPLACE INTO events (id, body, number) VALUES ('4', 'h', 2)", ""},        // and updates one that only the last key finds
				{"INSERT INTO events (id, body) VALUES ('end', 'X')", "end X X x"},
			}
		}
		s.config = "tables: [{name: events, columns: {event_id: id, " + parts + ", payload: body, created_at: at}}]\n" + s.config
		relay := s.replace("partitions: 3", "partitions: 1").setup().start()
		relay.leading()
		var want []string
		for _, w := range statements {
			s.sql(w.statement)
			if w.event != "" {
				want = append(want, w.event)
			}
		}
		var got []string
		for _, r := range s.consume(s.name, len(want)) {
			got = append(got, strings.Join([]string{header(r, "ce_id"), string(r.Value), header(r, "ce_type"), header(r, "ce_tenant")}, " "))
		}
		if !slices.Equal(got, want) {
			cdctest.Violation(s.t, cdctest.Difference(got, want), "published %q, want %q", got, want)
		}
	})
}

// A part that is made of a generated column is refused by name where PostgreSQL does not publish it, before an event is read.
func TestGeneratedColumnOfPostgres(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]*testenv.PostgresServer{"older": postgres, "18": testenv.Postgres(t, testenv.PostgresOptions{Version: 18})} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSiteOn(t, server).sql(`CREATE TABLE events (id bigint PRIMARY KEY, body text NOT NULL, loud text GENERATED ALWAYS AS (upper(body)) STORED)`)
			s.config = "tables: [{name: events, columns: {event_id: id, event_type: loud, payload: body}}]\n" + s.config
			const says = `publication "SLOT" does not publish column loud of public.events, which is generated. Fix: name what it is made of in its place in tables[].columns`
			s.says(2, says, "setup")
			s.says(3, says, "check")
			if r := s.run("check"); strings.Contains(r.stdout, "table public.events") {
				t.Errorf("the column is also called missing: %s", r)
			}
			s.says(2, says, "run")
			if name == "18" {
				s.sql("ALTER PUBLICATION cdc_relay_"+s.name+" SET (publish_generated_columns = stored)", "ALTER TABLE events ADD quiet text GENERATED ALWAYS AS (lower(body)) VIRTUAL")
				s.replace("event_type: loud", "event_type: quiet").says(3, "column quiet of public.events, which is generated", "check")
				s.replace("event_type: quiet", "event_type: loud")
			} else {
				s.replace("event_type: loud", "event_type: {template: '${body}'}")
			}
			relay := s.setup().start()
			relay.leading()
			s.says(0, "check passed", "check")
			s.sql("INSERT INTO events VALUES (1, 'a')")
			if got := header(s.consume(s.name, 1)[0], "ce_type"); !strings.EqualFold(got, "a") {
				t.Errorf("published %q", got)
			}
		})
	}
}
