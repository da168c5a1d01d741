package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// kafkaClient returns a client, for the caller to close.
func (s *site) kafkaClient(opts ...kgo.Opt) *kgo.Client {
	s.t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(kafka.Bootstrap()...))...)
	testenv.Must(s.t, err)
	return client
}

// consume returns the first n records of a topic, by partition in order.
func (s *site) consume(topic string, n int) (records []*kgo.Record) {
	s.t.Helper()
	client := s.kafkaClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			s.t.Fatalf("%d records in topic %s, want %d", len(records), topic, n)
		}
		fetches.EachRecord(func(r *kgo.Record) { records = append(records, r) })
	}
	return records
}

// records returns how many records a topic has.
func (s *site) records(topic string) (n int) {
	s.t.Helper()
	client := s.kafkaClient()
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(s.t.Context(), topic)
	if err == nil {
		err = ends.Error()
	}
	testenv.Must(s.t, err)
	ends.Each(func(end kadm.ListedOffset) { n += int(end.Offset) })
	return n
}

// text is a record without the headers that say when it was committed or replayed.
func text(r *kgo.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%d key %q value %q (null: %t)\n", r.Topic, r.Partition, r.Key, r.Value, r.Value == nil)
	for _, h := range r.Headers {
		if h.Key != "ce_committime" && h.Key != "ce_sequence" && h.Key != "replayed_at" {
			fmt.Fprintf(&b, "%s: %q (null: %t)\n", h.Key, h.Value, h.Value == nil)
		}
	}
	return b.String()
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// variety inserts four events that use every column.
func (s *site) variety() {
	s.t.Helper()
	id, payload := "'%s'", `'\x00ff'`
	if s.mysql != nil {
		id, payload = "UNHEX(REPLACE('%s', '-', ''))", "X'00ff'"
	}
	for i, rest := range []string{
		`'Order', 'ö-1', 'OrderPlaced', 'acme', NULL, 'k1', 'application/json', 'urn:x', 3, '{"traceparent": "00-1", "n": 1.50, "none": null}', ` + payload + `, '2026-01-02 03:04:05.678'`,
		`'Order', '2', 'OrderPlaced', NULL, NULL, NULL, 'text/plain', NULL, NULL, NULL, NULL, '2026-01-02 03:04:05'`,
		`'Invoice', '3', 'Paid', 'umbrella', NULL, '', 'text/plain', NULL, NULL, '{}', '', '1999-12-31 23:59:59.999999'`,
		`'Invoice', '3', 'Sent', 'acme', '` + s.name + `', '', 'text/plain', NULL, NULL, NULL, 'Grüße', '2026-01-02'`,
	} {
		s.sql("INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, tenant_id, topic, partition_key, content_type, schema_id, schema_version, headers, payload, occurred_at) VALUES (" +
			fmt.Sprintf(id, eventID(i+1)) + ", " + rest + ")")
	}
}

// A replay publishes the same records as the relay, which runs on, and keeps its position and its fence.
func TestReplay(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		t := s.t
		s.replace("kafka: {", "kafka: {transactional_id: "+s.name+", ").setup()
		relay := s.start()
		url := relay.leading()
		s.variety()
		s.published(url, 4)
		before := s.status(url).Checkpoint.Generation
		if r := s.run("replay"); r.code != 0 || !strings.Contains(r.stdout, ".outbox by created_at, which is not the order of commits") || !strings.Contains(r.stdout, "\n4 events published\n") {
			t.Fatalf("replay: %s", r)
		}
		s.says(0, "", "replay", "--id", eventID(2))
		first, again := map[string]string{}, []string(nil)
		for _, r := range s.consume(s.name, 9) {
			id := header(r, "ce_id")
			if header(r, "replayed_at") == "" {
				first[id] = text(r)
				continue
			}
			again = append(again, id)
			if got := text(r); got != first[id] {
				cdctest.Violation(t, cdctest.Content, "replayed:\n%s\npublished:\n%s", got, first[id])
			}
			if at, err := time.Parse(time.RFC3339Nano, header(r, "ce_committime")); err != nil || time.Since(at) > time.Hour {
				t.Errorf("ce_committime %s, %v", at, err)
			}
		}
		slices.Sort(again)
		if want := []string{eventID(1), eventID(2), eventID(2), eventID(3), eventID(4)}; !slices.Equal(again, want) {
			cdctest.Violation(t, cdctest.Difference(again, want), "replayed %v, want %v", again, want)
		}
		s.insert(5).published(url, 5)
		s.says(0, "1 event published", "replay", "--id", eventID(5))
		s.insert(6).published(url, 6) // to the same partition, which knows by now who was fenced
		if after := s.status(url); after.State != "leading" || after.Checkpoint.Generation != before {
			t.Errorf("the relay: %+v", after)
		}
		if _, err := os.Stat(filepath.Join(s.dir, "cdc-relay-replay.json")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the state is there after the end: %v", err)
		}
	})
}

// Filters are combined, and a dry run counts and shows what they select.
func TestReplayFilters(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		s.setup().variety()
		for args, want := range map[string]string{
			"--since 2020-01-01T00:00:00Z --until 2020-01-02T00:00:00+02:00": "",

			"--since 2020-01-01T00:00:00+01:00 --type Paid --until 2100-01-01T00:00:00Z": "3",

			"--yes":                                  "1 2 3 4",
			"--key k1":                               "1",
			"--key 2 --key 3":                        "2 3 4",
			"--key ö-1 --id 1":                       "",
			"--id 1 --id 3":                          "1 3",
			"--type OrderPlaced":                     "1 2",
			"--type orderplaced":                     "",
			"--aggregate-type Invoice":               "3 4",
			"--aggregate-type Invoice --tenant acme": "4",
			"--table outbox --type Sent":             "4",
		} {
			var flags []string
			for i, arg := range strings.Fields(args) {
				if i > 0 && flags[i-1] == "--id" {
					arg = eventID(int(arg[0] - '0'))
				}
				flags = append(flags, arg)
			}
			r := s.raw("", append([]string{"replay", "--dry-run"}, flags...)...)
			var got []string
			for line := range strings.Lines(r.stdout) {
				if fields := strings.Fields(line); strings.HasPrefix(fields[len(fields)-1], "00000000-") {
					got = append(got, strings.TrimLeft(fields[len(fields)-1][24:], "0"))
				}
			}
			if strings.Join(got, " ") != want || (r.code == 0) != (want != "") {
				s.t.Errorf("%s: %v, want %s: %s", args, got, want, r)
			}
		}
	})
}

// Whatever cannot be replayed is said in one sentence with the fix, and nothing is published.
func TestReplayRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.setup()
	for i := range 12 {
		s.insert(i + 1)
	}
	s.sql("CREATE ROLE replay_relay LOGIN REPLICATION", "CREATE TABLE jobs (event_id uuid, kind text, body text, at timestamptz NOT NULL)")
	asked := s.config
	for _, c := range []struct {
		args, says string
		code       int
		replace    [2]string
	}{
		{"--id ''", "--id is empty. Fix: ", 2, [2]string{}},
		{"--id 4711", `not an event ID: column event_id of table public.outbox is of type uuid (invalid input syntax for type uuid: "4711"). Fix: give the ID as the header ce_id has it.`, 2, [2]string{}},
		{"--id " + eventID(99), "no event in the outbox matches --id " + eventID(99) + ", and nothing was published. Fix: ", 1, [2]string{}},
		{"--since 2026-01-02", `"2026-01-02" for "--since" flag: not a time with its zone, such as 2026-01-02T15:04:05Z. Fix: `, 2, [2]string{}},
		{"--since 2026-01-03T00:00:00Z --until 2026-01-02T00:00:00Z", "is not before --until", 2, [2]string{}},
		{"--key 42 --topic nowhere", `--topic: topic "nowhere" does not exist. Fix: create it, or correct --topic.`, 2, [2]string{}},
		{"--key 42 --topic a/b", `--topic: topic "a/b" does not exist. Fix: `, 2, [2]string{}},
		{"--key 42 --rate 0", "--rate 0 is not more than 0. Fix: ", 2, [2]string{}},
		{"--table nothing", "--table: nothing is not configured. Fix: ", 2, [2]string{}},
		{"--resume", "no replay was interrupted: cdc-relay-replay.json does not exist. Fix: ", 2, [2]string{}},
		{"--key 42 --state no/where.json", "the state of the replay cannot be saved", 2, [2]string{}},
		{"--key 42", "the rows of table public.outbox may not be read (permission denied for table outbox). Fix: set CDC_RELAY_OWNER_DSN", 2, [2]string{"postgres@", "replay_relay@"}},
		{"--tenant acme", "no table has the column that --tenant acme needs. Fix: ", 2, [2]string{"routes:", "tables: [{name: jobs, columns: {event_id: event_id, event_type: kind, payload: body, created_at: at}}]\nroutes:"}},
	} {
		s.config = asked
		if c.replace[0] != "" {
			s.replace(c.replace[0], c.replace[1])
		}
		args := append([]string{"replay"}, strings.Fields(c.args)...)
		for i := range args {
			args[i] = strings.Trim(args[i], "'")
		}
		r := s.raw("", args...)
		if r.code != c.code || !strings.Contains(r.stderr, c.says) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: %s\nwant exit %d, %s", c.args, r, c.code, c.says)
		}
	}
	s.config = asked
	if r := s.raw("", "replay"); r.code != 2 || !strings.Contains(r.stderr, "all 12 events of the outbox would be published once more. Continue?") || !strings.Contains(r.stderr, "not confirmed. Fix: answer y, or give --yes") {
		t.Error(r)
	}
	for _, place := range []string{`{"table": -1}`, `{"table": 2}`, `{"after": {"created_at": "noon", "event_id": ""}}`, `{"rows": -1}`} {
		state := fmt.Sprintf(`{"database": %q, "tables": ["public.outbox"], "total": 12, "place": %s}`, s.name, place)
		testenv.Must(t, os.WriteFile(filepath.Join(s.dir, "cdc-relay-replay.json"), []byte(state), 0o600))
		s.says(2, "the state in cdc-relay-replay.json cannot be read (", "replay", "--resume")
	}
}

// A replay whose Kafka is lost says why it stands still, and ends as soon as it is told to.
func TestReplayWithoutKafka(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.setup().many(4000, 7)
	other, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, s.name))
	testenv.Must(t, err)
	defer other.Close()
	lost := other.ListenAddrs()[0]
	s.replace(kafka.Bootstrap()[0], lost)
	replay := s.background("replay", "--yes", "--rate", "100")
	state := filepath.Join(s.dir, "cdc-relay-replay.json")
	eventually(t, func() error {
		_, err := os.Stat(state)
		return err
	})
	other.Close()
	replay.await("waiting: kafka, since .*" + regexp.QuoteMeta(lost))
	if code := replay.signal(syscall.SIGTERM); code != 1 {
		t.Errorf("SIGTERM: exit %d", code)
	}
	s.replace(lost, kafka.Bootstrap()[0])
	s.says(0, " published", "replay", "--resume", "--rate", "100000")
}

// A replay that is killed goes on with --resume: every event is published at least once, and each key's in order. So does one
// that is stopped, as it prints, also with the state of an earlier version.
func TestReplayIsKilledAndResumed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const events, keys = 4000, 7
	s.setup().many(events, keys)
	cmd := s.command("replay", "--yes", "--rate", "200") // it runs for much longer than the next command takes to start
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	defer func() {
		if t.Failed() {
			t.Logf("the first replay said: %s", &said)
		}
	}()
	testenv.Must(t, cmd.Start())
	state := filepath.Join(s.dir, "cdc-relay-replay.json")
	eventually(t, func() error {
		var progress replayState
		doc, err := os.ReadFile(state)
		if err == nil {
			err = json.Unmarshal(doc, &progress)
		}
		if err == nil && progress.Place.Done < events/20 {
			err = fmt.Errorf("%d are published", progress.Place.Done)
		}
		return err
	})
	s.says(2, "a replay runs with the state in cdc-relay-replay.json. Fix: wait until it has ended", "replay", "--resume")
	testenv.Must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	stateBefore, _ := os.ReadFile(state)
	s.says(2, "Fix: continue with --resume", "replay", "--key", "1")
	s.says(2, "--key cannot be changed", "replay", "--resume", "--key", "1")
	asked := s.config
	s.sql("CREATE TABLE other AS SELECT * FROM outbox WHERE 1 = 0").replace("routes:", "tables: [{name: other, columns: {event_id: event_id, event_type: event_type, payload: payload, created_at: created_at}}, {name: outbox}]\nroutes:")
	s.says(2, "is of a replay of the tables ", "replay", "--resume")
	s.config = asked
	s.sql("DELETE FROM outbox WHERE event_id = '" + eventID(events) + "'") // which was counted
	s.insert(events+1, events+2)                                           // which come meanwhile, and are the relay's
	s.says(1, "of 4000 events that were counted only 3999 were in the outbox", "replay", "--resume", "--rate", "100000")
	seen, highest := map[string]bool{}, map[string]int{}
	records := s.consume(s.name, s.records(s.name))
	for _, r := range records {
		id := header(r, "ce_id")
		var n int
		_, _ = fmt.Sscanf(id[len(id)-12:], "%d", &n)
		if key := string(r.Key); !seen[id] && n < highest[key] {
			cdctest.Violation(t, cdctest.Order, "key %s: event %d is first seen after %d", key, n, highest[key])
			t.FailNow()
		} else if !seen[id] {
			highest[key] = n
		}
		seen[id] = true
	}
	if len(seen) != events-1 {
		cdctest.Violation(t, cdctest.Lost, "%d of %d events", len(seen), events-1)
	}
	if repeated := len(records) - events; repeated > events/2 {
		t.Errorf("%d were repeated: %s", repeated, stateBefore)
	}
	s.resumesTwice(stateBefore)
}

// replayState is the state of a replay.
type replayState struct {
	Total, Rate int
	Place       struct{ Rows, Done int }
}

// resumesTwice goes on with a state in a file of another name, which an earlier version wrote, stops, and goes on as is printed.
func (s *site) resumesTwice(state []byte) {
	s.t.Helper()
	const name = "it's the state.json"
	file := filepath.Join(s.dir, name)
	state = regexp.MustCompile(`,\s*"done": (\d+)\s*}`).ReplaceAll(state, []byte(`}, "published": $1, "dropped": 0`))
	former := regexp.MustCompile(`"ends": \[[^]]*\],`).ReplaceAll(state, nil) // of one before that
	testenv.Must(s.t, os.WriteFile(file, former, 0o600))
	s.says(2, "cannot be read (place ", "replay", "--resume", "--state", name)
	var before replayState
	if err := errors.Join(os.WriteFile(file, state, 0o600), json.Unmarshal(state, &before)); err != nil {
		s.t.Fatalf("%s: %v", state, err)
	}
	had := s.records(s.name)
	cmd := s.command("replay", "--resume", "--rate", "500", "--state", name)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	testenv.Must(s.t, cmd.Start())
	eventually(s.t, func() error {
		var now replayState
		doc, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(doc, &now)
		}
		if err == nil && (now.Rate != 500 || now.Place.Done <= before.Place.Rows) {
			err = errors.New("nothing is published yet")
		}
		return err
	})
	testenv.Must(s.t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	s.follows(1, "only 3999 were in the outbox", said.String(), "replay")
	if n := s.records(s.name) - had; n < before.Total-1-before.Place.Rows { // one was deleted
		cdctest.Violation(s.t, cdctest.Lost, "%d records of %d events", n, before.Total-1-before.Place.Rows)
	}
}

// many inserts events of several keys, in order of their numbers, on PostgreSQL.
func (s *site) many(n, keys int) {
	s.t.Helper()
	s.sql(fmt.Sprintf(`INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, payload, occurred_at, created_at)
		SELECT ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, 'Order', i %% %d, 'OrderPlaced', '{}', now(), now() - interval '1 hour' + i * interval '1 ms' FROM generate_series(1, %d) i`, keys, n))
}
