package commands

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// column is a type with a value of it, as SQL. An ID also has what SELECT shows as the ID, if that is not the column itself.
type column struct{ ddl, value, shown string }

// The types of IDs and payloads that tables of other software have. %d is the row's number.
var (
	postgresIDs = []column{
		{"uuid", "'0198C0DE-0000-7000-8000-00000000000%d'", ""},
		{"char(36)", "'0198C0DE-0000-7000-8000-00000000000%d'", ""},
		{"char(36)", "'short-%d'", "rtrim(id)"}, // padded with spaces, which are no part of the value
		{"varchar(40)", "' with space %d '", ""},
		{"text", "'01J9ZQ4T8V6W2X3Y4Z5A6B7C8%d'", ""},
		{"bigint", "-900719925474099%d", ""},
		{"numeric(20)", "1844674407370955161%d", ""},
	}
	postgresPayloads = []column{
		{"text", "E'not JSON \\n ü %d'", ""},
		{"varchar(100)", "'{\"a\" : 1.50, \"b\": %d}'", ""},
		{"json", "'{\"a\" : 1.50,  \"a\": %d}'", ""},
		{"jsonb", "'{\"b\" : 1.50,  \"a\": [1e3, \"\\u00e9\", %d]}'", ""},
		{"bytea", "'\\x00ff0%d'", ""},
		{"bytea", "'\\x'", ""},
		{"jsonb", "'null'", ""},
	}
	mysqlIDs = []column{
		{"char(36)", "'0198C0DE-0000-7000-8000-00000000000%d'", ""},
		{"char(36)", "'short-%d'", ""},
		{"varchar(40)", "' with space %d '", ""},
		{"char(26) CHARACTER SET ascii", "'01J9ZQ4T8V6W2X3Y4Z5A6B7C8%d'", ""},
		{"bigint", "-900719925474099%d", ""},
		{"bigint unsigned", "1844674407370955161%d", ""},
		{"binary(16)", "X'0198C0DE000070008000000000000%d00'", "insert(insert(insert(insert(lower(hex(id)), 9, 0, '-'), 14, 0, '-'), 19, 0, '-'), 24, 0, '-')"},
		{"varbinary(36)", "'0198C0DE-0000-7000-8000-00000000000%d'", ""},
	}
	mysqlPayloads = []column{
		{"text", "'not JSON \\n ü %d'", ""},
		{"varchar(100)", "'{\"a\" : 1.50, \"b\": %d}'", ""},
		{"json", "'{\"b\" : 1.50,  \"a\": [1e3, \"\\\\u00e9\", %d]}'", ""},
		{"blob", "X'00ff0%d'", ""},
		{"longtext", "concat(repeat('ü', 70000), '%d')", ""},
		{"longblob", "''", ""},
		{"varbinary(8)", "X'410%d00'", ""},
		{"json", "'null'", ""},
	}
)

// event is an event as a record has it, and as a SELECT shows it.
type event struct{ id, key, kind, value string }

// An ID and a payload of each type are published as SELECT shows them, and replay finds each event by that ID.
func TestTypesOfIDAndPayload(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		ids, payloads := postgresIDs, postgresPayloads
		if s.mysql != nil {
			ids, payloads = mysqlIDs, mysqlPayloads
		}
		if s.mysql != nil && s.mysql.Flavor == testenv.MariaDBFlavor {
			ids, payloads = append(slices.Clone(ids), column{"uuid", "'0198C0DE-0000-7000-8000-00000000000%d'", ""}), append(slices.Clone(payloads), column{"tinytext", "'%d'", ""})
		}
		config, topic := "tables:\n", s.name
		var want []event
		for i := range ids {
			s.sql(fmt.Sprintf("CREATE TABLE t%d (id %s PRIMARY KEY, kind varchar(20) NOT NULL, body %s, at timestamp NOT NULL DEFAULT now())", i, ids[i].ddl, payloads[i].ddl))
			config += fmt.Sprintf("  - {name: t%d, columns: {event_id: id, event_type: kind, payload: body, created_at: at}}\n", i)
		}
		s.config = config + s.config
		relay := s.setup().start()
		url := relay.leading()
		db := s.open()
		for i := range ids {
			for n := range 2 {
				value := func(c column) string { return strings.ReplaceAll(c.value, "%d", fmt.Sprint(n+1)) }
				s.sql(fmt.Sprintf("INSERT INTO t%[1]d (id, kind, body) VALUES (%[2]s, 't%[1]d', %[3]s)", i, value(ids[i]), value(payloads[i])))
				shown := "id"
				if ids[i].shown != "" {
					shown = ids[i].shown
				}
				var e event
				testenv.Must(s.t, db.QueryRow(fmt.Sprintf("SELECT %s, kind, body FROM t%d WHERE id = %s", shown, i, value(ids[i]))).Scan(&e.id, &e.kind, &e.value))
				want = append(want, e)
			}
		}
		s.leavesOut(url, 0, len(want))
		relay.stops()
		for _, e := range want {
			s.says(0, "1 event published", "replay", "--table", e.kind, "--id", e.id)
		}
		got := map[event]int{}
		for _, r := range s.consume(topic, 2*len(want)) {
			got[event{header(r, "ce_id"), string(r.Key), header(r, "ce_type"), string(r.Value)}]++
		}
		for _, e := range want {
			if got[e] != 2 {
				cdctest.Violation(s.t, cdctest.Content, "%d of 2 records are %.200q; all: %.1000q", got[e], e, fmt.Sprint(got))
			}
		}
		if s.mysql == nil { // whose SELECT shows bytes as hex digits
			s.sql("CREATE TABLE bytes (id bytea PRIMARY KEY)").replace(config, "tables: [{name: bytes, columns: {event_id: id, event_type: {const: x}, payload: {const: x}}}]\n")
			s.says(3, "column id of public.bytes is of type bytea, and an event ID is text. Fix: name a column of type uuid, text or bigint, or the like, under tables[0].columns.event_id", "check")
		}
	})
}
