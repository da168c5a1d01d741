package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// demo is one run, in the order of its methods.
type demo struct {
	options

	screen  *screen
	servers *servers
	shop    *shop
	binary  string
	topic   string
	relay   *cdctest.Relay
	reader  *cdctest.Reader
	load    *cdctest.Load
	faults  []cdctest.Fault
	// truth is the committed events of the writers; arrived is set if all were read.
	truth   *cdctest.Truth
	arrived bool
	// example is the path of the built examples/shop; "": it is built.
	example string
	orders  *orders
	// began is when the writers started, ended when all events had arrived.
	began, ended time.Time
}

// run returns an error if anything failed or a promise was broken. Call close afterwards.
func (d *demo) run(ctx context.Context) (err error) {
	for _, act := range []func(context.Context) error{d.makeDir, d.start, d.setup, d.startRelay, d.write, d.drain, d.order, d.stop} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return d.judge(d.reader.Records())
}

func (d *demo) makeDir(context.Context) (err error) {
	if d.dir == "" {
		d.dir, err = os.MkdirTemp("", "cdc-relay-demo-")
		return err
	}
	if d.dir, err = filepath.Abs(d.dir); err != nil {
		return err
	}
	return os.MkdirAll(d.dir, 0o755)
}

func (d *demo) start(ctx context.Context) (err error) {
	if d.binary, err = cdctest.Binary(ctx, d.dir); err != nil {
		return err
	}
	if d.servers, err = startServers(ctx, d.options, d.screen.w); err != nil {
		return err
	}
	d.screen.say("servers  %s on %s", d.servers.backend.title(), d.servers.backend.Addr())
	d.screen.say("         Kafka on %s", place(d.servers.brokers, d.servers.fakes.kafka != nil, "KAFKA=host:port"))
	d.screen.say("         Redis on %s", place(d.servers.redis, d.servers.fakes.redis != nil, "REDIS=host:port"))
	d.shop, err = openShop(ctx, d.servers.backend)
	return err
}

func place(addresses []string, fake bool, setting string) string {
	text := strings.Join(addresses, ",")
	if fake {
		text += ", in process; " + setting + " uses a real one"
	}
	return text
}

// window is how many events may be in flight, and thus be repeated after a kill.
const window = 4000

// setup writes the relay's configuration and runs cdc-relay setup.
func (d *demo) setup(ctx context.Context) (err error) {
	run := fmt.Sprintf("%06x", rand.Uint32N(1<<24)) // a server that the demo did not start may have objects of another run
	d.topic = "cdc-relay-demo-" + run
	d.relay, err = cdctest.NewRelay(d.binary, d.dir, cdctest.Config{
		"source":     d.servers.backend.source(),
		"routes":     []any{map[string]any{"match": map[string]any{"aggregate_type": "Order"}, "topic": d.topic + ordersSuffix}, map[string]any{"topic": d.topic}},
		"kafka":      map[string]any{"brokers": d.servers.brokers},
		"topics":     map[string]any{"create": map[string]any{"partitions": 8}},
		"checkpoint": map[string]any{"redis": map[string]any{"addrs": d.servers.redis, "key": "cdc-relay-demo:{" + run + "}"}},
		"in_flight":  map[string]any{"events": window},
		"log":        map[string]any{"format": "text"},
	})
	if err != nil {
		return err
	}
	if err := asYAML(d.configPath()); err != nil {
		return err
	}
	d.screen.say("setup    $ cdc-relay setup # as CDC_RELAY_OWNER_DSN")
	said, err := d.command(ctx, "setup")
	for line := range strings.Lines(said) {
		d.screen.say("         %s", strings.TrimSpace(line))
	}
	return err
}

func (d *demo) configPath() string { return filepath.Join(d.dir, "cdc-relay.yaml") }

// logPath is where the database's log is copied to.
func (d *demo) logPath() string { return filepath.Join(d.dir, d.kind+".log") }

// asYAML rewrites a JSON file as block-style YAML.
func asYAML(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil { // JSON is YAML
		return err
	}
	if text, err = yaml.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// command runs a command of the relay and returns its output.
func (d *demo) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, d.binary, append(args, "--config", d.configPath())...)
	cmd.Env = append(os.Environ(), "CDC_RELAY_OWNER_DSN="+d.servers.backend.ownerDSN())
	var said, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &complaint
	if err := cmd.Run(); err != nil {
		return said.String(), fmt.Errorf("cdc-relay %s: %w: %s", args[0], err, strings.TrimSpace(complaint.String()))
	}
	return said.String(), nil
}

// patience is the time limit for the start of the relay and for the arrival of all events.
const patience = 30 * time.Second

func (d *demo) startRelay(ctx context.Context) (err error) {
	d.screen.say("relay    $ cdc-relay run")
	if err := d.relay.Start(ctx); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := d.relay.AwaitReady(waiting); err != nil {
		return err
	}
	d.reader, err = cdctest.NewReader(cdctest.ReaderOptions{Brokers: d.servers.brokers, Topics: []string{d.topic}})
	return err
}

// write runs the writers and kills the relay twice meanwhile.
func (d *demo) write(ctx context.Context) error {
	d.screen.say("writing  %s of transactions through package writer, a tenth of them rolled back", d.duration)
	d.began = time.Now()
	d.load = cdctest.Workload{
		DB: d.shop, Prefix: "account-", Writers: 8, Keys: 500, Rows: 4, Pause: 10 * time.Millisecond, Seed: rand.Uint64(),
	}.Start(ctx)
	ticker := time.NewTicker(d.screen.interval())
	defer ticker.Stop()
	first, second, end := time.NewTimer(moment(d.duration, 0.4)), time.NewTimer(moment(d.duration, 0.7)), time.NewTimer(d.duration)
	defer first.Stop()
	defer second.Stop()
	defer end.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.relay.Done():
			return fmt.Errorf("the relay has ended: %s", d.relay.LogTail(3))
		case <-first.C:
			err = d.kill(ctx)
		case <-second.C:
			err = d.kill(ctx)
		case <-ticker.C:
			d.showProgress()
		case <-end.C:
			return d.load.Stop()
		}
		if err != nil {
			return err
		}
	}
}

// moment returns a fraction of the duration plus a random bit, so that the kill hits the relay at a random point.
func moment(whole time.Duration, part float64) time.Duration {
	return time.Duration(float64(whole) * (part + rand.Float64()/20))
}

// kill kills the relay and starts it again, as a supervisor would.
func (d *demo) kill(ctx context.Context) error {
	pid := d.relay.PID()
	d.relay.Kill()
	d.faults = append(d.faults, cdctest.Fault{Name: "SIGKILL", At: time.Now(), Budget: window})
	if err := d.relay.Start(ctx); err != nil {
		return err
	}
	d.screen.say("kill -9  relay %d is gone, %d takes over", pid, d.relay.PID())
	return nil
}

func (d *demo) showProgress() {
	records, events := d.reader.Count()
	d.screen.progress("%6.0f s  %s committed, %s delivered, %s of them twice", time.Since(d.began).Seconds(),
		number(d.load.Ledger.Committed()), number(events), number(records-events))
}

// drain waits until all committed events were read or the time limit is reached: judge reports what is missing.
func (d *demo) drain(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d.truth = cdctest.NewTruth(d.topic, d.shop.RecordSource())
	if err := d.shop.Committed(ctx, d.truth.Add); err != nil {
		return fmt.Errorf("read the outbox table: %w", err)
	}
	d.arrived = d.reader.AwaitAll(waiting, d.truth, nil) == nil
	d.ended = time.Now()
	return ctx.Err()
}

// stop stops the relay with SIGTERM.
func (d *demo) stop(ctx context.Context) error {
	if err := d.relay.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%w: %s", err, d.relay.LogTail(3))
	}
	stopping, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	exit, err := d.relay.Wait(stopping)
	if err != nil {
		return err
	}
	if exit.Code != 0 && d.arrived {
		return fmt.Errorf("the relay ended with exit code %d: %s", exit.Code, d.relay.LogTail(3))
	}
	return d.reader.CatchUp(stopping)
}

// close stops everything that was started and removes what the demo created on other servers.
func (d *demo) close(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if d.load != nil {
		_ = d.load.Stop() // reported before, or no longer of interest
	}
	if d.orders != nil {
		d.orders.close()
	}
	if d.relay != nil {
		d.relay.Kill()
	}
	if d.reader != nil {
		d.reader.Close()
	}
	if d.relay != nil && d.servers.lent() {
		_, err = d.command(ctx, "teardown", "--yes")
		err = errors.Join(err, d.servers.deleteTopics(ctx, d.topic, d.topic+ordersSuffix))
	}
	if d.shop != nil {
		err = errors.Join(err, d.shop.db.Close())
	}
	if d.servers != nil {
		err = errors.Join(err, d.servers.close(d.logPath()))
	}
	return err
}

// sayWhere prints where to look.
func (d *demo) sayWhere(w io.Writer) {
	_, _ = fmt.Fprintf(w, `
config and logs  %s: cdc-relay.yaml, relay.log, shop.log, %s
next             your own database: see docs/quickstart.md
                 another one in the demo: make demo DB=postgres, mysql or mariadb
                 real servers: KAFKA=localhost:9092 REDIS=localhost:6379 make demo
                 every promise, tested on real servers: make test
`, d.dir, filepath.Base(d.logPath()))
}
