package commands

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// loadedEvents is how many events are committed to each table, and statementPause the time between two statements of a table's writers and
// pollers: 500 in a second, where the machine can.
const (
	loadedEvents   = 1500
	statementPause = 2 * time.Millisecond
)

// While the pollers of the five tables claim, update and delete rows, the relay publishes each committed INSERT once and nothing else, in
// order for each key, with what a SELECT shows beside the INSERT.
func TestPollersBesideTheRelay(t *testing.T) {
	t.Parallel()
	onLayouts(t, func(s *site, name string) {
		script := s.table(name)
		s.setup()
		relay := s.start()
		url := relay.leading()
		want := s.load(script, url)
		relay.stops()
		compareEvents(s.t, s.consume(s.name, s.records(s.name)), want)
	})
}

// event is an event as a record has it, and as a SELECT shows it.
type event struct{ id, key, kind, value string }

// compareEvents compares records with events, which are in order for each key.
func compareEvents(t *testing.T, records []*kgo.Record, events []event) {
	t.Helper()
	want, got, byID := map[string][]string{}, map[string][]string{}, map[string]event{}
	for _, e := range events {
		byID[e.id] = e
		want[e.key] = append(want[e.key], e.id)
	}
	for _, r := range records {
		e := event{header(r, "ce_id"), string(r.Key), header(r, "ce_type"), string(r.Value)}
		if committed, ok := byID[e.id]; !ok || e != committed {
			cdctest.Violation(t, cdctest.Content, "published %.300q, SELECT shows %.300q (committed: %t)", e, committed, ok)
		}
		got[e.key] = append(got[e.key], e.id)
	}
	delete(want, "") // in no order
	for key, ids := range want {
		if !slices.Equal(got[key], ids) {
			cdctest.Violation(t, cdctest.Difference(got[key], ids), "key %s: published %.500s, committed %.500s", key, fmt.Sprint(got[key]), fmt.Sprint(ids))
		}
	}
	if len(records) != len(events) {
		cdctest.Violation(t, cdctest.Duplicates, "%d records of %d events", len(records), len(events))
	}
}

// load is what writes to a table beside the relay.
type load struct {
	db       *sql.DB
	postgres bool
	script   map[string][]string // see [site.table]
	tick     <-chan time.Time
	large    string // which no database compresses
	last     atomic.Int64
	changed  []atomic.Int64 // rows, by the poller's statements
}

// load runs two writers, and two pollers that go on until the relay has published all. It returns what was committed, in order for each key.
func (s *site) load(script map[string][]string, url string) []event {
	s.t.Helper()
	db := s.open()
	ticker := time.NewTicker(statementPause)
	defer ticker.Stop()
	l := &load{db: db, postgres: s.pg != nil, script: script, tick: ticker.C, changed: make([]atomic.Int64, len(script["poller"]))}
	for random := rand.New(rand.NewPCG(1, 2)); len(l.large) < 10_000; {
		l.large += strconv.FormatUint(random.Uint64(), 36)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	var pollers, writers errgroup.Group
	for _, worker := range []string{"w1", "w2"} {
		pollers.Go(func() error { return l.poll(ctx, worker) })
	}
	var events []event
	var mu sync.Mutex
	for writer := range 2 {
		writers.Go(func() error {
			written, err := l.write(ctx, writer)
			mu.Lock()
			defer mu.Unlock()
			events = append(events, written...)
			return err
		})
	}
	testenv.Must(s.t, writers.Wait())
	s.leavesOut(url, 0, len(events))
	cancel()
	if err := pollers.Wait(); err != nil {
		s.t.Error(err)
	}
	for i := range l.changed {
		if l.changed[i].Load() == 0 {
			s.t.Errorf("no row was changed by %s", script["poller"][i])
		}
	}
	return events
}

// open connects to the site's database as the superuser.
func (s *site) open() *sql.DB {
	s.t.Helper()
	var db *sql.DB
	var err error
	if s.mysql != nil {
		db, err = s.mysql.Open(s.name, nil)
	} else {
		db, err = sql.Open("pgx", s.pg.DSN(s.name, ""))
	}
	testenv.Must(s.t, err)
	s.t.Cleanup(func() { _ = db.Close() })
	return db
}

// poll executes the poller's statements again and again.
func (l *load) poll(ctx context.Context, worker string) error {
	for {
		for i, statement := range l.script["poller"] {
			select {
			case <-l.tick:
			case <-ctx.Done():
				return nil
			}
			changed, err := l.exec(ctx, l.db, statement, map[string]string{"worker": worker})
			if err != nil && ctx.Err() == nil && !isDeadlock(err) {
				return err
			}
			l.changed[i].Add(changed)
		}
	}
}

// write commits events with keys of the writer's own until there are enough.
func (l *load) write(ctx context.Context, writer int) (events []event, err error) {
	random := rand.New(rand.NewPCG(1, uint64(writer)))
	for len(events) < loadedEvents/2 {
		committed, err := l.transaction(ctx, writer, random)
		if err != nil && !isDeadlock(err) {
			return nil, err
		}
		events = append(events, committed...)
	}
	return events, nil
}

// transaction inserts some rows, of which some do not stay. It returns those that were committed.
func (l *load) transaction(ctx context.Context, writer int, random *rand.Rand) (events []event, err error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	for range 1 + random.IntN(4) {
		undone := random.IntN(10) == 0
		if undone {
			if _, err := tx.ExecContext(ctx, "SAVEPOINT here"); err != nil {
				return nil, err
			}
		}
		e, err := l.insert(ctx, tx, 10*writer+random.IntN(5), random)
		if err != nil {
			return nil, err
		}
		if !undone {
			events = append(events, e)
		} else if _, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT here"); err != nil {
			return nil, err
		}
	}
	if random.IntN(8) == 0 {
		return nil, nil
	}
	return events, tx.Commit()
}

// insert inserts a row by one of the script's statements, and reads it by the one behind.
func (l *load) insert(ctx context.Context, tx *sql.Tx, key int, random *rand.Rand) (e event, err error) {
	n, statements := l.last.Add(1), l.script["writer"]
	values := map[string]string{
		"uuid": fmt.Sprintf("0198c0de-0000-7000-8000-%012d", n), "ulid": fmt.Sprintf("01J9ZQ4T8V6W2X3Y%010d", n),
		"key": fmt.Sprintf("order %d", key), "keyuuid": fmt.Sprintf("0198c0de-0000-7000-8000-%012d", key),
		"type": fmt.Sprintf("type %d", random.IntN(3)), "json": l.document(random), "text": l.document(random)[1:], "at": "2026-01-02 03:04:05",
	}
	at := 2 * random.IntN(len(statements)/2)
	<-l.tick
	if _, err = l.exec(ctx, tx, statements[at], values); err != nil {
		return e, err
	}
	query, args := l.bind(statements[at+1], values)
	return e, tx.QueryRowContext(ctx, query, args...).Scan(&e.id, &e.key, &e.kind, &e.value)
}

// document is JSON, with spaces, escapes and numbers that databases write in another way, and now and then too large for the row itself.
func (l *load) document(random *rand.Rand) string {
	large := ""
	if random.IntN(10) == 0 {
		large = l.large[random.IntN(1000):]
	}
	return []string{
		"[]", `"text \u00e9\n"`, "[1.50, 1e3, 12345678901234567890]",
		fmt.Sprintf(`{"b" :1,  "a": "Grüße, 世界", "large": [null, true, %q]}`, large),
	}[random.IntN(4)]
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// exec returns how many rows a statement changed.
func (l *load) exec(ctx context.Context, on execer, statement string, values map[string]string) (int64, error) {
	query, args := l.bind(statement, values)
	result, err := on.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", statement, err)
	}
	return result.RowsAffected()
}

var named = regexp.MustCompile(`::|:[a-z]+`)

// bind replaces names such as :key by the database's placeholders, and leaves casts alone.
func (l *load) bind(statement string, values map[string]string) (query string, args []any) {
	return named.ReplaceAllStringFunc(statement, func(name string) string {
		if name == "::" {
			return name
		}
		args = append(args, values[name[1:]])
		if l.postgres {
			return fmt.Sprintf("$%d", len(args))
		}
		return "?"
	}), args
}

func isDeadlock(err error) bool {
	return err != nil && strings.Contains(strings.ToLower(err.Error()), "deadlock")
}
