package app

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/router"
)

func TestRetryReachesEveryStage(t *testing.T) {
	c := &config.Config{Retry: config.Retry{Initial: 3 * time.Second, Max: 7 * time.Second}}
	p := publisherOptions(c)
	r := RelayOptions(c, &Postgres{}, nil)
	for stage, have := range map[string]config.Retry{
		"publisher": {Initial: p.RetryInitial, Max: p.RetryMax}, "relay": {Initial: r.RetryInitial, Max: r.RetryMax},
	} {
		if have != c.Retry {
			t.Errorf("the %s retries after %+v, want %+v", stage, have, c.Retry)
		}
	}
}

func TestPositionsAreLoggedAsTheDatabasePrintsThem(t *testing.T) {
	for _, tt := range []struct {
		db         Database
		have, want string
	}{
		{&Postgres{}, "00000016B374D848", "16/B374D848"},
		{&Postgres{}, "", ""},
		{&MySQL{}, "0-1-7", "0-1-7"},
		{&MySQL{}, "00000016B374D848", "00000016B374D848"}, // no GTID set, but an LSN of PostgreSQL
	} {
		if got := RelayOptions(&config.Config{}, tt.db, nil).Display(cdc.Position(tt.have)); got != tt.want {
			t.Errorf("%T shows %q as %q, want %q", tt.db, tt.have, got, tt.want)
		}
	}
}

// tables[].only holds for the stream: a dead letter that is retried and a replay publish what somebody has asked for.
func TestOnlyHoldsForTheStream(t *testing.T) {
	c := &config.Config{Routes: []config.Route{{Topic: "orders"}}}
	layout, err := outbox.Mapped(map[string]outbox.Part{"event_id": outbox.Of("id"), "event_type": outbox.Of("type"), "payload": outbox.Of("payload")})
	if err != nil {
		t.Fatal(err)
	}
	tables := []Table{{Table: router.Table{Name: outbox.Name{Schema: "public", Table: "jobs"}, Source: "/jobs", Layout: layout, Only: map[string]string{"status": "NEW"}}}}
	b := &cdc.Batch{
		Table: &cdc.Table{Schema: "public", Name: "jobs", Columns: []cdc.Column{{Name: "id"}, {Name: "type"}, {Name: "payload"}, {Name: "status"}}},
		Arena: []byte("1SENT"), Spans: []cdc.Span{{Len: 1}, {Len: 1}, {Len: 1}, {Off: 1, Len: 4}}, Txs: []cdc.Tx{{}},
	}
	replay := func(c *config.Config, tables []Table) *router.Router { return ReplayRouter(c, tables) }
	for name, stage := range map[string]struct {
		router func(*config.Config, []Table) *router.Router
		out    int
	}{"stream": {RelayRouter, 1}, "commands": {Router, 1}, "letters": {LetterRouter, 0}, "replay": {replay, 0}} {
		var routed cdc.Routed
		routed.Reset(b)
		if err := stage.router(c, tables).Route(b, &routed); err != nil || routed.LeftOut != stage.out || len(routed.Messages) != 1-stage.out {
			t.Errorf("%s: %d left out, %d messages, %v", name, routed.LeftOut, len(routed.Messages), err)
		}
	}
}

// A write whose context ended is followed by one that waits for its own answer: what withdraws a request is durable when it returns.
func TestIndexWriterWaitsForItsOwnAnswer(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders.dead-letters.index"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	writes, goOn := make(chan struct{}, 2), make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		writes <- struct{}{}
		cluster.SleepControl(func() { <-goOn })
		return nil, nil, false
	})
	text := fmt.Sprintf("source: {postgres: {dsn: postgres://relay@127.0.0.1/orders}}\nkafka: {brokers: [%q]}\nerrors: {default: dead_letter}\nroutes: [{topic: orders}]\n", cluster.ListenAddrs()[0])
	c, err := config.Parse("test", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	write, closeAll, err := LetterDesk(c).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeAll)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-writes
		cancel()
	}()
	if err := write(ctx, []byte("asked"), []byte("1")); err == nil {
		t.Fatal("the first write has an answer")
	}
	done := make(chan error, 1)
	go func() { done <- write(t.Context(), []byte("asked"), nil) }()
	goOn <- struct{}{}
	<-writes
	select {
	case err := <-done:
		t.Errorf("the second write has the answer of the first: %v", err)
	case <-time.After(50 * time.Millisecond):
		goOn <- struct{}{}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
