package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of the writers
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// usualChoice says what of the usual load is measured. What is not chosen is measured whole.
type usualChoice struct {
	databases, deliveries, relays []string
	rates                         []int
}

// add adds what a list names.
func (c *usualChoice) add(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		switch rate, err := strconv.Atoi(name); {
		case slices.Contains(usualDatabases(), name):
			c.databases = append(c.databases, name)
		case name == leastOnce || name == exactOnce:
			c.deliveries = append(c.deliveries, name)
		case name == thisRelay || name == bareRelay || name == debezium:
			c.relays = append(c.relays, name)
		case err == nil && rate > 0:
			c.rates = append(c.rates, rate)
		default:
			return fmt.Errorf("%q is no database, delivery, rate or relay", name)
		}
	}
	return nil
}

func usualDatabases() []string {
	return []string{"postgres", testenv.MySQLFlavor, testenv.MariaDBFlavor}
}

// whole fills in what was not chosen. The relay to compare with is measured if there is one.
func (c usualChoice) whole(against string) usualChoice {
	if len(c.databases) == 0 {
		c.databases = usualDatabases()
	}
	if len(c.deliveries) == 0 {
		c.deliveries = []string{leastOnce, exactOnce}
	}
	if len(c.rates) == 0 {
		c.rates = []int{10, 100, 1000, 5000}
	}
	if len(c.relays) == 0 {
		c.relays = []string{bareRelay, thisRelay}
	}
	if against != "" {
		c.relays = append(c.relays, otherRelay)
	}
	return c
}

const (
	leastOnce = "at-least-once"
	exactOnce = "exactly-once"

	thisRelay  = "this"
	otherRelay = "other"
	bareRelay  = "bare" // a log reader and an AsyncProducer
	debezium   = "debezium"
	kafkaAlone = "kafka"

	usualWriters = 8 // a commit that waits for the disk takes longer than the time between two
	usualWarmUp  = 2 * time.Second
	usualSpan    = 8 * time.Second
	usualIdle    = 10 * time.Second

	neighbour = "neighbour" // a database on the same server, beside which a relay is idle

	// A run in which the machine did more than that beside the benchmark, or in which the clock was set, does not count.
	quietBusy  = 20 // percent of the machine while everything is idle
	quietSteal = 5  // percent
	quietJump  = 50 * time.Millisecond
)

// usualRound is one rate through one relay. An event is a transaction of its own.
type usualRound struct {
	Database string `json:"database"`
	Delivery string `json:"delivery"`
	Relay    string `json:"relay"`
	Rate     int    `json:"transactions_per_second"` // 0: idle
	Beside   int    `json:"neighbours_transactions_per_second"`
	Round    int    `json:"round"`

	Seen    spread  `json:"insert_to_consumer"` // from before the INSERT is sent
	Insert  spread  `json:"insert_alone"`
	Reached float64 `json:"transactions_per_second_reached"`
	// An event's, or in a second if the relay is idle.
	CPU       float64 `json:"cpu_us"`
	ServerCPU float64 `json:"server_cpu_us"`
	Switches  float64 `json:"context_switches"` // of the relay; 0 without perf
	Calls     float64 `json:"system_calls"`     // the same

	Busy   float64 `json:"machine_busy_percent"`
	Steal  float64 `json:"steal_percent"`
	Jumped float64 `json:"clock_jumped_ms"`
}

// usual measures the load that services have: one event a transaction at steady rates, with fsync on, and an idle relay. The relays take turns
// within a round, so that they meet the same machine.
func (s *stand) usual(ctx context.Context, o options) (all []usualRound, err error) {
	c, against := o.chosen.whole(o.against), ""
	if o.against != "" {
		if against, err = s.build(ctx, o.against); err != nil {
			return nil, err
		}
	}
	if err := s.fsync(ctx, true); err != nil {
		return nil, err
	}
	if err := s.neighbour(ctx); err != nil {
		return nil, err
	}
	if _, err := s.kafkaAlone(ctx, 1000, latencyWarmUp, latencySpan); err != nil {
		return nil, fmt.Errorf("warming up: %w", err)
	}
	for round := -1; round < o.rounds; round++ { // the first compiles the brokers' code for transactions
		for _, rate := range c.rates {
			alone, err := s.kafkaAlone(ctx, rate, usualWarmUp, usualSpan)
			if err != nil {
				return nil, err
			}
			all = append(all, usualRound{Relay: kafkaAlone, Rate: rate, Round: round, Seen: alone})
		}
		relays := slices.Clone(c.relays)
		if len(relays) > 0 && round >= 0 { // none is always the first
			at := round % len(relays)
			relays = append(relays[at:], relays[:at]...)
		}
		for _, database := range c.databases {
			for _, delivery := range c.deliveries {
				for _, relay := range relays {
					if delivery == exactOnce && (relay == bareRelay || relay == debezium) || database == testenv.MariaDBFlavor && relay == debezium {
						continue
					}
					u := usualRun{stand: s, rates: c.rates, against: against, base: usualRound{Database: database, Delivery: delivery, Relay: relay, Round: round}}
					found, err := u.run(ctx)
					if err != nil {
						return nil, fmt.Errorf("%s, %s, %s: %w", database, delivery, relay, err)
					}
					all = append(all, found...)
				}
			}
		}
	}
	all = slices.DeleteFunc(all, func(r usualRound) bool { return r.Round < 0 })
	return all, s.fsync(ctx, false)
}

// neighbour makes a database beside those that relays read.
func (s *stand) neighbour(ctx context.Context) error {
	if err := s.pg.CreateDatabase(ctx, neighbour); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.pg.DSN(neighbour, ""))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "CREATE TABLE orders (id text, payload bytea)")
	return err
}

// usualRun is a relay through which every rate goes.
type usualRun struct {
	*stand

	base    usualRound
	rates   []int
	against string // the binary of the other relay
	topic   string
	db      *sql.DB
	insert  string // takes key and payload
	server  int    // its process
	process *process
}

func (u *usualRun) run(ctx context.Context) (all []usualRound, err error) {
	name := fmt.Sprintf("usual_%s_%d_%s_%s", u.base.Database, u.base.Round+1, strings.ReplaceAll(u.base.Delivery, "-", "_"), u.base.Relay)
	if u.topic, err = u.stand.topic(ctx); err != nil {
		return nil, err
	}
	u.once = u.base.Delivery == exactOnce
	defer func() { u.once = false }()
	if err := u.collect(ctx); err != nil {
		return nil, err
	}
	end, err := u.open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	steps := []func() (usualRound, error){func() (usualRound, error) { return u.idle(ctx) }}
	if u.base.Database == "postgres" { // of a binlog all is read
		steps = append(steps, func() (usualRound, error) { return u.idleBeside(ctx) })
	}
	for _, rate := range u.rates {
		steps = append(steps, func() (usualRound, error) { return u.measure(ctx, rate) })
	}
	for _, step := range steps {
		r, err := step()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%d/s: %w", r.Rate, err), u.process.failed())
		}
		all = append(all, r)
	}
	return all, u.process.stop()
}

// collect has the broker collect its garbage now: that stops it for 30 to 190 ms, and the p99 of a turn was whether it met that. Without a JDK's
// jcmd it may.
func (u *usualRun) collect(ctx context.Context) error {
	jcmd, _ := exec.LookPath("jcmd")
	if jcmd == "" {
		return nil
	}
	return exec.CommandContext(ctx, jcmd, strconv.Itoa(u.kafka.Brokers()[0].PID()), "GC.run").Run()
}

// open makes an outbox, and starts the relay that reads it.
func (u *usualRun) open(ctx context.Context, name string) (end func() error, err error) {
	addr := u.listen()
	if u.once {
		if err := u.positions(ctx, name); err != nil {
			return nil, err
		}
	}
	var path, source string
	var more []string
	b := bareSource{Database: u.base.Database, Topic: u.topic, Brokers: u.kafka.Bootstrap()}
	if u.base.Database == "postgres" {
		conn, err := u.database(ctx, name, name)
		if err != nil {
			return nil, err
		}
		if u.db, err = sql.Open("pgx", u.pg.DSN(name, "")); err != nil {
			return nil, err
		}
		end = func() error { return errors.Join(u.db.Close(), dropSlots(ctx, conn, []string{name}), conn.Close(ctx)) }
		u.insert, u.server = insertPostgres, u.pg.PID()
		b.DSN, b.Slot, b.Publication = u.pg.DSN(name, ""), name, name
		if path, err = u.configure(name, name, u.topic, addr); err == nil {
			source, err = u.debeziumPostgres(name)
		}
		if err != nil {
			return nil, err
		}
	} else {
		m, err := u.mysql(ctx, u.base.Database)
		if err != nil {
			return nil, err
		}
		u.db, u.insert, u.server = m.db, insertMySQL, m.PID()
		end = m.db.Close
		err = errors.Join(m.fresh(ctx), m.exec(ctx, "SET GLOBAL sync_binlog = 1", "SET GLOBAL innodb_flush_log_at_trx_commit = 1"))
		if err != nil {
			return nil, err
		}
		b.DSN, more = m.DSN(mysqlDatabase, ""), []string{"current"}
		if path, err = m.configure(name, u.topic, addr); err == nil {
			source, err = m.debeziumSource()
		}
		if err != nil {
			return nil, err
		}
	}
	started := func() (bool, error) { return ready(ctx, addr), nil }
	switch u.base.Relay {
	case bareRelay:
		u.process, err = u.startBare(name, b)
		started = func() (bool, error) {
			log, err := os.ReadFile(u.process.log)
			return strings.Contains(string(log), bareReady), err
		}
	case debezium:
		var start func() (*process, error)
		if start, err = u.debezium(ctx, name, u.topic, source); err == nil {
			u.process, err = start()
		}
		started = func() (bool, error) { return u.publishes(ctx) }
	case otherRelay:
		u.process, err = u.startAs(u.against, path, more...)
	default:
		u.process, err = u.start(path, more...)
	}
	if err != nil {
		return end, err
	}
	return end, u.process.until(ctx, 10*time.Millisecond, started)
}

// publishes writes an event, and reports whether an earlier one was published: Debezium does not say when it reads.
func (u *usualRun) publishes(ctx context.Context) (bool, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(u.kafka.Bootstrap()...))
	if err != nil {
		return false, err
	}
	defer client.Close()
	n, err := records(ctx, client, []string{u.topic})
	key, payload := numbered(0)
	_, inserted := u.db.ExecContext(ctx, u.insert, key, payload)
	return n > 0, errors.Join(err, inserted)
}

// idle leaves the relay alone.
func (u *usualRun) idle(ctx context.Context) (usualRound, error) {
	counters, err := u.count(ctx)
	if err != nil {
		return u.base, err
	}
	time.Sleep(usualIdle)
	return counters.into(u.base, usualIdle.Seconds())
}

// idleBeside has another database of the server commit.
func (u *usualRun) idleBeside(ctx context.Context) (r usualRound, err error) {
	const rate = 1000
	n := int(usualIdle.Seconds()) * rate
	db, err := sql.Open("pgx", u.pg.DSN(neighbour, ""))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	clock := newStopwatch(n, 0)
	w := newWriters(db, "INSERT INTO orders VALUES ($1, $2)", clock)
	counters, err := u.count(ctx)
	if err != nil {
		return r, err
	}
	err = errors.Join(paced(ctx, n, rate, func(i int) error { return w.insert(ctx, clock, i) }), w.wait())
	if err != nil {
		return r, err
	}
	r = u.base
	r.Beside = rate
	return counters.into(r, usualIdle.Seconds())
}

// measure runs one rate through the relay.
func (u *usualRun) measure(ctx context.Context, rate int) (usualRound, error) {
	r := u.base
	r.Rate = rate
	n, warm := int((usualWarmUp+usualSpan).Seconds())*rate, int(usualWarmUp.Seconds())*rate
	clock, w := newStopwatch(n, warm), newWriters(u.db, u.insert, newStopwatch(n, warm))
	counters, err := u.count(ctx)
	if err != nil {
		return r, err
	}
	err = u.consume(ctx, u.topic, clock, func() error {
		return errors.Join(paced(ctx, n, rate, func(i int) error { return w.insert(ctx, clock, i) }), w.wait())
	})
	if err != nil {
		return r, err
	}
	r.Seen, r.Insert, r.Reached = clock.spread(), w.inserts.spread(), clock.rate()
	return counters.into(r, float64(n))
}

// insertPostgres takes the aggregate ID and the payload.
const insertPostgres = `INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, tenant_id, payload, occurred_at)
	VALUES (gen_random_uuid(), 'Order', $1, 'OrderPlaced', 'tenant-1', $2, now())`

func numbered(i int) (key string, payload []byte) {
	return fmt.Sprintf("order-%06d", i%100000), append(binary.BigEndian.AppendUint64(nil, uint64(i)), make([]byte, payloadSize-8)...)
}
