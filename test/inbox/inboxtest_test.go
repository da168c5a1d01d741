package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/inboxtest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// What inboxtest offers works on each database: a handler's work is rolled back, and a consumer is awaited.
func TestInboxtest(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		placed := &writer.Event{AggregateType: "Order", AggregateID: "o-1", Type: "OrderPlaced"}
		m, bad := inboxtest.Message(placed), inboxtest.Message(placed)
		in, err := inbox.New(writer.SQL(db.conn, db.dialect), "c")
		testenv.Must(t, err)
		seen := 0
		err = inboxtest.Handle(t, in, effect, m, func(tx *sql.Tx) {
			testenv.Must(t, tx.QueryRowContext(t.Context(), "SELECT count(*) FROM effects").Scan(&seen))
		})
		if refused := errors.New("refused"); err != nil || seen != 1 || db.count(t, "effects") != 0 ||
			!errors.Is(inboxtest.Handle(t, in, func(context.Context, *sql.Tx, *writer.Unit, *inbox.Message) error { return refused }, m, func(*sql.Tx) { seen++ }), refused) || seen != 1 {
			t.Errorf("%d seen: %v", seen, err)
		}

		c := newConsumption(t, db, 1)
		for _, m := range []*inbox.Message{m, bad} {
			r := &kgo.Record{Topic: c.topic, Key: []byte(m.ID), Value: m.Value}
			for _, h := range m.Headers {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
			}
			testenv.Must(t, c.admin.ProduceSync(t.Context(), r).FirstErr())
		}
		stop, _ := c.start(func(ctx context.Context, tx *sql.Tx, _ *writer.Unit, m *inbox.Message) error {
			if m.ID == bad.ID {
				return inbox.Permanent(errors.New("refused"))
			}
			return effect(ctx, tx, nil, m)
		}, nil)
		inboxtest.Await(t, in, m)
		if n := db.count(t, "effects"); n != 1 {
			t.Errorf("%d effects", n)
		}
		if said := failed(t, func(f *failing) { inboxtest.Await(f, in, bad) }); !strings.HasSuffix(said, "is parked: refused") {
			t.Error(said)
		}
		testenv.Must(t, stop())
	})
}

// failing is a test that notes its end.
type failing struct {
	testing.TB

	said string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f)
}

// failed returns how a test ends.
func failed(t *testing.T, test func(f *failing)) (said string) {
	t.Helper()
	f := &failing{TB: t}
	defer func() {
		if v := recover(); v != nil && v != any(f) {
			panic(v)
		}
		said = f.said
	}()
	test(f)
	return ""
}
