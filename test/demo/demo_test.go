package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// example is the built examples/shop.
var example string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "cdc-relay-demo-test-")
	if err == nil {
		example = filepath.Join(dir, "shop")
		err = buildExample(context.Background(), example)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// brief returns a demo that is as short as possible.
func brief(t *testing.T, kind string, out *bytes.Buffer) *demo {
	t.Helper()
	return &demo{options: options{kind: kind, duration: shortest, dir: t.TempDir()}, screen: newScreen(out), example: example}
}

// The demo passes, and leaves nothing on a Kafka that it did not start. It fails if a promise is broken; the checkers' own tests have each
// kind.
func TestDemoPasses(t *testing.T) {
	for _, kind := range []string{kindPostgres, kindMySQL, kindMariaDB} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var out, complaints bytes.Buffer
			d := brief(t, kind, &out)
			if kind == kindPostgres {
				d.kafka = testenv.Kafka(t, testenv.KafkaOptions{}).Bootstrap()
			}
			if code := perform(t.Context(), d, &complaints); code != exitKept {
				d.violations(t)
				t.Fatalf("exit code %d\n%s%s", code, complaints.String(), out.String())
			}
			t.Log("\n" + out.String())
			if n := count(t, &out, "committed"); n == 0 || count(t, &out, "delivered") != n {
				t.Errorf("%d committed, %d delivered", n, count(t, &out, "delivered"))
			}
			for _, row := range []string{"lost", "order violations", "wrong"} {
				if n := count(t, &out, row); n != 0 {
					t.Errorf("%s: %d", row, n)
				}
			}
			for _, row := range []string{"duplicates", "p50", "p99", "longest", "events per second", "orders", "reserved"} {
				count(t, &out, row)
			}
			if n := strings.Count(out.String(), "kill -9"); n != 4 || d.relay.Starts() != 3 {
				t.Errorf("%d kills shown, %d starts of the relay", n, d.relay.Starts())
			}
			if title := d.servers.backend.title(); !strings.HasPrefix(out.String(), "servers  "+title+" on ") {
				t.Errorf("it does not begin with %s", title)
			}
			if log, err := os.Stat(filepath.Join(d.dir, kind+".log")); err != nil || log.Size() == 0 {
				t.Errorf("the database's log is missing: %v", err)
			}
			if d.kafka != nil {
				leavesNothing(t, d.kafka)
			}
			out.Reset()
			if err := d.judge(loseOne(d.reader.Records())); err == nil || !strings.Contains(err.Error(), "a promise was broken") || count(t, &out, "lost") == 0 {
				t.Errorf("without one event: %v\n%s", err, out.String())
			}
		})
	}
}

// leavesNothing verifies that a Kafka has neither topics nor groups.
func leavesNothing(t *testing.T, brokers []string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	testenv.Must(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := cdctest.Await(ctx, "a Kafka without topics and groups", func(ctx context.Context) (bool, error) { // brokers learn of it later
		topics, errTopics := kadm.NewClient(client).ListTopics(ctx)
		groups, errGroups := kadm.NewClient(client).ListGroups(ctx)
		return len(topics.Names()) == 0 && len(groups.Groups()) == 0, errors.Join(errTopics, errGroups)
	}); err != nil {
		t.Error(err)
	}
}

// violations reports what no slow machine causes. What is lost or repeated may be: the demo waits for events, and the relay for Redis,
// only for a while.
func (d *demo) violations(t *testing.T) {
	t.Helper()
	if d.ended.IsZero() {
		return // it has not read the table
	}
	report := cdctest.Check(d.truth, d.reader.Records(), cdctest.CheckOptions{Faults: d.allowed()})
	for _, kind := range []cdctest.Kind{cdctest.Order, cdctest.Phantom, cdctest.Content} {
		if report.Count(kind) > 0 {
			cdctest.Violation(t, kind, "%v", report.Err())
		}
	}
}

// count reads a row of the table.
func count(t *testing.T, out *bytes.Buffer, row string) int {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + row + ` +([0-9,]+)(\.[0-9]+ ms)?(  |$)`).FindSubmatch(out.Bytes())
	if found == nil {
		t.Fatalf("the table has no row %q:\n%s", row, out)
	}
	n, err := strconv.Atoi(strings.ReplaceAll(string(found[1]), ",", ""))
	testenv.Must(t, err)
	return n
}

// loseOne removes all records of one event.
func loseOne(records []cdctest.Record) []cdctest.Record {
	id := records[len(records)/2].EventID
	return slices.DeleteFunc(records, func(r cdctest.Record) bool { return r.EventID == id })
}

// A signal ends the demo and everything that it started.
func TestDemoIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var complaints bytes.Buffer
	d := brief(t, kindPostgres, nil)
	d.duration = time.Minute
	d.screen = newScreen(trigger{"writing", interrupt})
	if code := perform(ctx, d, &complaints); code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, complaints.String())
	}
	if d.relay.Running() {
		t.Error("the relay is running")
	}
	if pid := d.servers.backend.PID(); pid != 0 && syscall.Kill(pid, 0) == nil {
		t.Errorf("%s is running: PID %d", d.servers.backend.title(), pid)
	}
}

// trigger calls do when a text is written.
type trigger struct {
	text string
	do   func()
}

func (w trigger) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.do()
	}
	return len(p), nil
}

// An order that was placed or took effect twice breaks a promise, as one that is missing.
func TestOrdersAreCounted(t *testing.T) {
	for _, o := range []orders{{placed: wanted + 1, reserved: wanted}, {placed: wanted, reserved: wanted + 1}, {placed: wanted, reserved: wanted - 1}} {
		if o.check() == nil {
			t.Errorf("%d orders with %d pieces are not reported", o.placed, o.reserved)
		}
	}
}

func TestCommandLine(t *testing.T) {
	for _, tt := range []struct {
		args []string
		env  map[string]string
		code int
		says string
	}{
		{nil, map[string]string{"DB": "oracle"}, exitUsage, `unknown database "oracle": use postgres, mysql`},
		{[]string{"-db", "redis"}, map[string]string{"DB": "mysql"}, exitUsage, `unknown database "redis"`},
		{[]string{"-duration", "1s"}, nil, exitUsage, "too short for two kills"},
		{[]string{"postgres"}, nil, exitUsage, `unexpected argument "postgres"`},
		{[]string{"-nothing"}, nil, exitUsage, "-nothing"},
		{[]string{"-help"}, nil, exitKept, "-duration"},
		{[]string{"-dir", os.DevNull}, nil, exitBroken, "the logs are in " + os.DevNull},
	} {
		t.Run(fmt.Sprint(tt.args, tt.env), func(t *testing.T) {
			var out, complaints bytes.Buffer
			code := execute(t.Context(), tt.args, func(name string) string { return tt.env[name] }, &out, &complaints)
			if code != tt.code || !strings.Contains(complaints.String(), tt.says) {
				t.Errorf("exit code %d: %s", code, complaints.String())
			}
		})
	}
	o, err := parse(nil, func(name string) string {
		return map[string]string{"DB": "mariadb", "KAFKA": "a:1,b:2", "REDIS": "c:3"}[name]
	}, nil)
	if err != nil || o.kind != kindMariaDB || !slices.Equal(o.kafka, []string{"a:1", "b:2"}) || !slices.Equal(o.redis, []string{"c:3"}) {
		t.Errorf("%+v, %v", o, err)
	}
}
