package writer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/writer"
)

func TestAppendManyEventsIsOneStatement(t *testing.T) {
	w := newWriter(t)
	texts := map[string]bool{}
	for n := 2; n <= 300; n++ {
		tx, events := &recorder{}, newEvents(n)
		mustAppend(t, w, tx, events...)
		if len(tx.statements) != 1 {
			t.Fatalf("%d events: %d statements, want 1", n, len(tx.statements))
		}
		s := tx.statements[0]
		texts[s.query] = true
		requireOrder(t, s.ids(t), events)
		if len(s.args) > n*columns || strings.Count(s.query, "$") != len(s.args) {
			t.Errorf("%d events: %d arguments for %d parameters", n, len(s.args), strings.Count(s.query, "$"))
		}
	}
	if len(texts) > 8 {
		t.Errorf("%d texts, want 8 at most: drivers prepare each of them", len(texts))
	}
}

func TestAppendSplits(t *testing.T) {
	w := newWriter(t, writer.WithMaxPayload(16<<20))
	for name, c := range map[string]struct{ events, payload, large, want int }{
		"as many rows as a statement has": {4096, 2, 0, 1},
		"one row more":                    {4097, 2, 0, 2},
		"many rows":                       {10_000, 2, 0, 3},
		"by bytes":                        {20, 1 << 20, 0, 7}, // three of a little more than 1 MiB in 4 MiB
		"a large row is alone":            {3, 2, 10 << 20, 3},
	} {
		t.Run(name, func(t *testing.T) {
			tx, events := &recorder{}, newEvents(c.events)
			for _, e := range events {
				e.Payload = make([]byte, c.payload)
			}
			if c.large > 0 {
				events[1].Payload = make([]byte, c.large)
			}
			mustAppend(t, w, tx, events...)
			if len(tx.statements) != c.want {
				t.Errorf("%d statements, want %d", len(tx.statements), c.want)
			}
			var ids []string
			for _, s := range tx.statements {
				ids = append(ids, s.ids(t)...)
			}
			requireOrder(t, ids, events)
		})
	}
}

func TestAppendWritesArraysAsText(t *testing.T) {
	events := newEvents(9)
	e := events[1]
	e.ID = uuid.MustParse("5f9c3f1e-1111-4222-8333-444455556666")
	e.TenantID, e.SchemaVersion = `a"\,{}NULL`, 7
	e.OccurredAt = time.Date(1, 2, 3, 4, 5, 6, 789_000, time.UTC)
	events[2].Payload, events[2].Tombstone = nil, true
	tx := &recorder{}
	mustAppend(t, newWriter(t), tx, events...)
	args := tx.statements[0].args
	for i, want := range map[int]string{
		0:  "," + "5f9c3f1e111142228333444455556666" + ",",
		1:  `{"Order","Order","Order"`,
		4:  `{"","a\"\\,{}NULL","",`,
		9:  "{0,7,0",
		12: ",0001-02-03T04:05:06.000789Z,",
		13: ",NULL,",
		14: "{1,3,5,5,7,",
		15: "{2,2,-1,2,",
	} {
		if got, ok := args[i].(string); !ok || !strings.Contains(got, want) {
			t.Errorf("argument $%d is %v, want %s in it", i+1, args[i], want)
		}
	}
	if got := args[11].([]byte); string(got) != strings.Repeat("{}", 8) {
		t.Errorf("payloads %q", got)
	}
	for _, unused := range []int{5, 6, 8, 10} {
		if args[unused] != nil {
			t.Errorf("argument $%d is %v, want nil", unused+1, args[unused])
		}
	}
}

func requireOrder(t *testing.T, ids []string, events []*writer.Event) {
	t.Helper()
	if len(ids) != len(events) {
		t.Fatalf("%d rows for %d events", len(ids), len(events))
	}
	for i, e := range events {
		if ids[i] != e.ID.String() {
			t.Fatalf("row %d has id %s, want that of event %d, %s", i, ids[i], i, e.ID)
		}
	}
}
