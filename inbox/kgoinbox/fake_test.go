package kgoinbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
	"github.com/cdc-relay/cdc-relay/writer"
)

type fakeTx struct{}

// fakeDB is a database with an inbox that has some messages and records no others. It fails as it is told, and has parked messages.
type fakeDB struct {
	hangs    bool // in Begin
	mu       sync.Mutex
	down     error        // of Begin
	readOnly error        // of writes
	tries    atomic.Int64 // of Begin while it is down, and of writes while it takes none
	parked   []parkedRow
	purged   int          // times
	looks    atomic.Int64 // for what is ready

	nothingReady bool // of what is parked
	begun        atomic.Int64
	recorded     []string // IDs
}

type parkedRow struct {
	m      *inbox.Message
	record []byte
	key    parking.Key
}

func (d *fakeDB) park(t *testing.T, m *inbox.Message) {
	t.Helper()
	record, err := json.Marshal(m)
	must(t, err)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parked = append(d.parked, parkedRow{m, record, parking.KeyOf(m)})
}

func (*fakeDB) Dialect() writer.Dialect { return writer.Postgres }

func (d *fakeDB) set(down, readOnly error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down, d.readOnly = down, readOnly
}

func (d *fakeDB) counted(err error) error {
	if err != nil {
		d.tries.Add(1)
	}
	return err
}

func (d *fakeDB) Begin(ctx context.Context) (*fakeTx, error) {
	if d.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun.Add(1)
	return &fakeTx{}, d.counted(d.down)
}

func (*fakeDB) Commit(context.Context, *fakeTx) error { return nil }

func (*fakeDB) Rollback(context.Context, *fakeTx) error { return nil }

func (d *fakeDB) Exec(_ context.Context, _ *fakeTx, query string, args ...any) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if strings.Contains(query, "handled_at <") {
		d.purged++
	}
	if strings.HasPrefix(query, "DELETE") { // of Redo
		d.parked = slices.DeleteFunc(d.parked, func(row parkedRow) bool { return slices.Contains(args, any(row.m.ID)) })
	}
	if strings.Contains(query, "handled_at) VALUES") && slices.Contains(d.recorded, args[2].(string)) {
		return 0, nil
	}
	return 1, d.counted(d.readOnly)
}

func (d *fakeDB) Query(_ context.Context, _ *fakeTx, query string, args ...any) (writer.Rows, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &fakeRows{}
	if strings.Contains(query, "RETURNING") { // a batch; its arrays are literals
		for i, id := range texts(args[2]) {
			if !slices.Contains(d.recorded, id) {
				r.rows = append(r.rows, []any{texts(args[1])[i], id})
			}
		}
		return r, d.counted(d.readOnly)
	}
	if strings.Contains(query, "NOT EXISTS") {
		d.looks.Add(1)
	}
	for _, row := range d.parked {
		switch {
		case strings.Contains(query, "NOT EXISTS") && d.nothingReady:
		case strings.Contains(query, "count(*)"):
			r.rows = [][]any{{int64(len(d.parked))}}
		case strings.Contains(query, "DISTINCT"):
			r.rows = append(r.rows, []any{row.key[:]})
		case strings.Contains(query, "NOT EXISTS") && len(r.rows) == readyRows:
		case strings.Contains(query, "NOT EXISTS"), bytes.Equal(args[len(args)-1].([]byte), row.key[:]):
			r.rows = append(r.rows, []any{row.m.Source, row.m.ID, row.record, nil, 1, true, int64(0)})
		}
	}
	return r, nil
}

func texts(array any) []string {
	return strings.Split(strings.Trim(array.(string), `{"}`), `","`)
}

type fakeRows struct {
	rows [][]any
	row  []any
}

func (r *fakeRows) Next() bool {
	if len(r.rows) == 0 {
		return false
	}
	r.row, r.rows = r.rows[0], r.rows[1:]
	return true
}

func (r *fakeRows) Scan(dest ...any) error {
	for i, to := range dest {
		switch to := to.(type) {
		case *string:
			*to = r.row[i].(string)
		case *[]byte:
			*to = r.row[i].([]byte)
		case *int:
			*to = r.row[i].(int)
		case *int64:
			*to = r.row[i].(int64)
		case *bool:
			*to = r.row[i].(bool)
		}
	}
	return nil
}

func (*fakeRows) Err() error { return nil }

func (*fakeRows) Close() error { return nil }

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// newFake returns a consumer of the database.
func newFake(t *testing.T, db *fakeDB, c Config, h inbox.Handler[*fakeTx]) (*Consumer[*fakeTx], *lines) {
	t.Helper()
	log := new(lines)
	c.Logger = slog.New(slog.NewTextHandler(log, nil))
	in, err := inbox.New(db, "c")
	must(t, err)
	var handlers inbox.Registry[*fakeTx]
	handlers.Default(h)
	consumer, err := New(in, &handlers, c)
	must(t, err)
	return consumer, log
}

// newFakePartition returns a partition of it, without Kafka.
func newFakePartition(t *testing.T, c *Consumer[*fakeTx]) (p *partition[*fakeTx], ended context.Context) {
	t.Helper()
	ended, cancel := context.WithCancelCause(t.Context())
	r := c.newRun(cancel)
	r.shareOut()
	return newPartition(t.Context(), r, topicPartition{"orders", 0}), ended
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func message(offset int64) *inbox.Message {
	id := fmt.Sprint(offset)
	return &inbox.Message{Topic: "orders", Offset: offset, Source: "/orders", ID: id, Key: []byte(id)}
}
