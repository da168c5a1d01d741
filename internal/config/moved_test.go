package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// movedFile is a file as 0.1.0 read it, the same with present names, and what is said of it, without the file's name.
type movedFile struct {
	was, is string
	said    []string
}

const onMySQLNamed = `source: {mysql: {dsn: "relay@tcp(db)/orders", id: o}}` + "\n" + `kafka: {brokers: ["k:1"]}` + "\n" + `checkpoint: {file: position}` + "\n"

// withColumns has a table whose rows are deleted.
const withColumns = good + "tables: [{name: a, columns: {event_id: id, event_type: type, payload: payload, created_at: at}}]\n"

func movedFiles() map[string]movedFile {
	return map[string]movedFile{
		"in_flight": {
			good + "# in flight\nwindow: # so much\n  events: 300\n  bytes: 1MiB # each\nlog: {level: warn}\n",
			good + "# in flight\nin_flight: # so much\n  events: 300\n  bytes: 1MiB # each\nlog: {level: warn}\n",
			[]string{"4: window is now in_flight"},
		},
		"ce_source":       {good + "# all\nrecord:\n  source: /orders\nretry: {max: 3s}\n", good + "# all\nce_source: /orders\nretry: {max: 3s}\n", []string{"5: record.source is now ce_source"}},
		"an empty record": {good + "record: {}\n", good, []string{"3: record has no effect any more: it held only what is ce_source now"}},
		"position": {
			good + "position: {conflict: slot}\n", good,
			[]string{"3: position.conflict has no effect any more: `cdc-relay position reset --skip-events` continues from a slot that is ahead of the checkpoint", "3: position has no effect any more: it held only conflict"},
		},
		"an empty position": {good + "position: {}\n", good, []string{"3: position has no effect any more: it held only conflict"}},
		"auto_retry": {
			good + "dead_letter:\n  topic: dead\n  # soon\n  retry_after: 5m # and later\n  max_attempts: 3\n  max_held_keys: 5\n  hold_key: false\n",
			good + "dead_letter:\n  topic: dead\n  auto_retry:\n    # soon\n    after: 5m # and later\n    attempts: 3\n  hold_key: false\n",
			[]string{
				"8: dead_letter.max_held_keys has no effect any more: dead_letter.max_held_events limits them too",
				"6: dead_letter.retry_after is now dead_letter.auto_retry.after", "7: dead_letter.max_attempts is now dead_letter.auto_retry.attempts",
			},
		},
		"failover": {
			"source:\n  postgres:\n    dsn: postgres://relay@db/orders\n    failover: off\nkafka: {brokers: [\"k:1\"]}\n",
			"source:\n  postgres:\n    dsn: postgres://relay@db/orders\nkafka: {brokers: [\"k:1\"]}\n",
			[]string{"4: source.postgres.failover has no effect any more: from PostgreSQL 17 on setup and repair create a failover slot"},
		},
		"flavor and server_id": {
			strings.Replace(onMySQLNamed, "id: o", "id: o, flavor: mariadb, server_id: 7", 1), onMySQLNamed,
			[]string{"1: source.mysql.flavor has no effect any more: the server says what it is", "1: source.mysql.server_id has no effect any more: the relay draws one"},
		},
		"partitions": {
			good + "# old days\npartitions:\n  ahead: 8\n  # a month\n  ttl: 30d\n  every: 5m\n  drop: false\nlog: {level: warn}\n",
			good + "# old days\nretention:\n  every: 5m\n  # a month\n  keep: 30d\n  ahead: 8\n  drop: false\nlog: {level: warn}\n",
			[]string{
				"8: partitions.every is now retention.every", "7: partitions.ttl is now retention.keep",
				"5: partitions.ahead is now retention.ahead", "9: partitions.drop is now retention.drop",
			},
		},
		"partitions that stay": {good + "# ahead\npartitions: {}\n", good + "# ahead\nretention: {}\n", []string{"4: partitions is now retention"}},
		"retention": {
			good + "retention:\n  delete:\n    older_than: 30d # a month\n    batch: 10\n    pause: 1s\n    every: 5m\n",
			good + "retention:\n  partitions: false\n  every: 5m\n  keep: 30d # a month\n  batch: 10\n",
			[]string{
				"8: retention.delete.every is now retention.every", "7: retention.delete.pause has no effect any more: it is 100ms",
				"5: retention.delete.older_than is now retention.keep", "6: retention.delete.batch is now retention.batch",
			},
		},
		"no rows to delete": {
			good + "retention: {delete: {older_than: 30d}}\npartitions: {ahead: 8}\n", good + "retention: {ahead: 8}\n",
			[]string{"3: retention.delete has no effect any more: no table has columns", "4: partitions.ahead is now retention.ahead"},
		},
		"both": {
			withColumns + "retention: {delete: {older_than: 30d, batch: 10}}\npartitions: {ttl: 30d}\n",
			withColumns + "retention: {keep: 30d, batch: 10}\n",
			[]string{"5: partitions.ttl is now retention.keep", "4: retention.delete.older_than is now retention.keep", "4: retention.delete.batch is now retention.batch"},
		},
		"malformed": {
			good + "errors:\n  unroutable: \"dead_letter\" # kept\n  rejected: drop\n", good + "errors:\n  unroutable: \"dead_letter\" # kept\n  malformed: \"dead_letter\"\n  rejected: drop\n",
			[]string{"4: errors.malformed is dead_letter, as errors.unroutable, until the file sets it"},
		},
	}
}

// A setting of 0.1.0 is read with a warning, and config migrate writes a file that loads to the same configuration, with its comments and in
// its order.
func TestMoved(t *testing.T) {
	t.Parallel()
	var all string
	for name, m := range movedFiles() {
		all += strings.Join(m.said, "\n") + "\n"
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "c.yaml")
			writeFile(t, path, m.was)
			written, changes, err := config.Migrate(path)
			if err != nil || string(written) != m.is {
				t.Fatalf("%v\nhave\n%s\nwant\n%s", err, written, m.is)
			}
			was := load(t, path)
			writeFile(t, path, m.is)
			is := load(t, path)
			if a, b := show(t, was), show(t, is); a != b {
				t.Errorf("the configuration has changed: %s", firstDifference([]byte(a), []byte(b)))
			}
			var said []string
			for _, w := range changes {
				said = append(said, strings.TrimPrefix(w.Text, path+":"))
				if !slices.Contains(was.Warnings(), w) || !strings.Contains(w.Fix, "config migrate") {
					t.Errorf("not a warning: %q", w)
				}
			}
			if !slices.Equal(said, m.said) {
				t.Errorf("have %q\nwant %q", said, m.said)
			}
			if again, changes, err := config.Migrate(path); err != nil || len(changes) > 0 || string(again) != m.is {
				t.Errorf("again: %q %v", changes, err)
			}
		})
	}
	if i := slices.IndexFunc(config.Moved(), func(name string) bool { return !strings.Contains(all, ": "+name+" ") }); i >= 0 {
		t.Errorf("%s is not tested", config.Moved()[i])
	}
}

func load(t *testing.T, path string) *config.Config {
	t.Helper()
	c, err := config.Load(path, os.LookupEnv)
	testenv.Must(t, err)
	return c
}
