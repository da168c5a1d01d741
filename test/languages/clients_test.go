package languages

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// root is the checkout.
const root = "../.."

// clients are those that write to a database, by their keys, with the number in a fixed ID.
func (e *engine) clients() map[string]int {
	all := map[string]int{"jdbc": 10, "spring": 11, "sqlalchemy": 12, "session": 13}
	if e.pg != nil {
		all["asyncio"], all["pg"] = 14, 15
	} else {
		all["mysql2"] = 16
	}
	return all
}

// more are what callbacks of the transaction, and objects that are merged, raise after the events of all clients.
var more = map[string][]string{"spring": {"First", "Flush", "BeforeFlush", "Flush"}, "session": {"Merged", "Cascaded", "Commit", "Flush", "Commit", "Commit", "Flush"}}

// Each client's events arrive with their headers and in order, and what it rolled back, or a savepoint of it, does not.
func TestClients(t *testing.T) {
	java, python, node := []string{"-cp", compile(t, javaFiles(t)...), "Clients"}, []string{"testdata/clients.py"}, []string{typeScript(t)}
	type reading struct {
		relay *cdctest.Relay
		topic string
	}
	started := map[*engine]reading{}
	for _, e := range engines {
		e.database(t, "clients")
		relay, topic := e.relay(t, "clients")
		if _, err := relay.Command(t.Context(), "setup"); err != nil {
			t.Fatal(err)
		}
		started[e] = reading{relay, topic}
		java, python, node = append(java, e.jdbc("clients")), append(python, e.sqlalchemy("clients")), append(node, e.url("clients"))
	}
	output(t, testenv.Interpreter(t, testenv.Java, java...))
	runPython := func(args ...string) {
		t.Helper()
		command := testenv.Interpreter(t, testenv.Python, args...)
		command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+filepath.Join(root, "clients", "python"))
		output(t, command)
	}
	runPython(python...)
	output(t, testenv.Interpreter(t, testenv.Node, node...))
	for _, e := range engines {
		runPython("testdata/django_client.py", e.sqlalchemy("clients"))
	}
	for _, e := range engines {
		t.Run(e.dialect, func(t *testing.T) {
			r := started[e]
			testenv.Must(t, r.relay.Start(t.Context()))
			t.Cleanup(r.relay.Kill)
			got := e.published(t, r.topic)
			wanted := map[string][]string{"django": {plain("django", "OrderPlaced", `{"total": 1999}`), plain("django", "OrderPaid", "{}"), plain("django", "OrderSent", "{}")}}
			for client, n := range e.clients() {
				wanted[client] = events(client, n)
				for _, kind := range more[client] {
					wanted[client] = append(wanted[client], plain(client, kind, "{}"))
				}
			}
			for client, want := range wanted {
				if !slices.Equal(got[client], want) {
					t.Errorf("%s: got\n%s\nwant\n%s", client, strings.Join(got[client], "\n"), strings.Join(want, "\n"))
				}
				delete(got, client)
			}
			if len(got) > 0 {
				t.Errorf("also published: %v", got)
			}
			e.keepsIDTimes(t)
		})
	}
}

// published reads the topic up to the last event, which it inserts, and returns the events by key.
func (e *engine) published(t *testing.T, topic string) map[string][]string {
	t.Helper()
	last := "UNHEX(REPLACE(UUID(), '-', ''))"
	if e.pg != nil {
		last = "gen_random_uuid()"
	}
	e.exec(t, "clients", "INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at, payload) VALUES ("+last+", 'Order', 'last', 'Last', '2026-01-01', '')")
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Bootstrap()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	testenv.Must(t, err)
	t.Cleanup(client.Close)
	byKey := map[string][]string{}
	for ended := false; !ended; {
		fetches := client.PollFetches(t.Context())
		testenv.Must(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if ended = string(r.Key) == "last"; !ended {
				byKey[string(r.Key)] = append(byKey[string(r.Key)], describe(r))
			}
		})
	}
	return byKey
}

// describe returns the parts of a record that do not depend on when and where it was written.
func describe(r *kgo.Record) string {
	var headers []string
	for _, h := range r.Headers {
		switch h.Key {
		case "ce_id", "ce_time": // given only with the first event
			if strings.HasSuffix(string(h.Value), ".678Z") || strings.HasPrefix(string(h.Value), "019aa6a0") {
				headers = append(headers, h.Key+":"+string(h.Value))
			}
		case "ce_sequence", "ce_committime", "ce_source", "ce_specversion":
		default:
			headers = append(headers, h.Key+":"+string(h.Value))
		}
	}
	slices.Sort(headers)
	value := string(r.Value)
	if r.Value == nil {
		value = "null"
	}
	return strings.Join(headers, " ") + " " + value
}

// events are what each client is to have published; n numbers the client's fixed ID.
func events(client string, n int) []string {
	return []string{
		fmt.Sprintf("ce_aggregatetype:Order ce_dataschema:shop.Full ce_dataschemaversion:2 ce_id:019aa6a0-7b7c-7cc0-8000-%012x ce_subject:o-1 "+
			"ce_tenant:acme ce_time:2026-01-02T03:04:05.678Z ce_type:Full content-type:application/vnd.order+json "+
			`quote:a"b\c`+"\n é😀 traceparent:00-1 "+`{"name": "é😀"}`, n),
		plain(client, "Tombstone", "null"), plain(client, "Before", "{}"), plain(client, "After", "{}"),
	}
}

func plain(client, kind, value string) string {
	return "ce_aggregatetype:Order ce_subject:" + client + " ce_type:" + kind + " content-type:application/json " + value
}

// keepsIDTimes verifies that created_at is the time in the ID, as the table's key needs it, and that times are in UTC.
func (e *engine) keepsIDTimes(t *testing.T) {
	t.Helper()
	var rows int
	query := "SELECT count(*) FROM outbox WHERE created_at = '2025-11-21 13:35:26.588' AND event_type = 'Full'"
	if e.pg != nil {
		query = "SELECT count(*) FROM outbox WHERE created_at = '2025-11-21 13:35:26.588+00' AND event_type = 'Full'"
	}
	if err := e.open("clients").Query(t.Context(), []any{&rows}, query); err != nil || rows != len(e.clients()) {
		t.Errorf("%d rows with the time of their ID, %v", rows, err)
	}
	query = "SELECT count(*) FROM outbox WHERE event_type = 'Before' AND created_at BETWEEN UTC_TIMESTAMP(6) - INTERVAL 10 MINUTE AND UTC_TIMESTAMP(6)" +
		" AND occurred_at BETWEEN UTC_TIMESTAMP(6) - INTERVAL 10 MINUTE AND UTC_TIMESTAMP(6)"
	if e.pg != nil {
		query = "SELECT count(*) FROM outbox WHERE event_type = 'Before' AND created_at BETWEEN now() - interval '10 minutes' AND now()" +
			" AND occurred_at BETWEEN now() - interval '10 minutes' AND now()"
	}
	if err := e.open("clients").Query(t.Context(), []any{&rows}, query); err != nil || rows != len(e.clients()) {
		t.Errorf("%d rows of now, %v", rows, err)
	}
}

func javaFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "clients", "java", "*.java"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of Java, %v", len(files), err)
	}
	return append(files, "testdata/Clients.java")
}

// typeScript compiles the client and its program strictly, and returns the program.
func typeScript(t *testing.T) string {
	t.Helper()
	dir, modules := t.TempDir(), filepath.Join(testenv.Libraries(t, testenv.Node), "node_modules")
	for name, content := range map[string]string{
		"package.json": `{"type": "module"}`, "clients.ts": text(t, "testdata/clients.ts"), "outbox.ts": text(t, filepath.Join(root, "clients", "typescript", "outbox.ts")),
	} {
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	testenv.Must(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	output(t, testenv.Interpreter(t, testenv.Node, filepath.Join(modules, "typescript", "bin", "tsc"), "--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes",
		"--skipLibCheck", "--module", "nodenext", "--target", "es2022", "--types", "node", "--typeRoots", filepath.Join(modules, "@types"), filepath.Join(dir, "clients.ts")))
	return filepath.Join(dir, "clients.js")
}

// url is for Node.
func (e *engine) url(database string) string {
	if e.pg != nil {
		return "postgresql://postgres@" + e.addr() + "/" + database
	}
	return "mysql://root@" + e.addr() + "/" + database
}
