package kafka_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

func every(*kafka.OpenTransaction) bool { return true }

// holding returns a producer that has written in a transaction to topic "t" and not ended it.
func holding(t *testing.T, c *kfake.Cluster) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.TransactionalID("another"))
	if err == nil {
		t.Cleanup(cl.Close)
		err = cl.BeginTransaction()
	}
	if err == nil {
		err = cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

func TestOpenTransactions(t *testing.T) {
	for name, tt := range map[string]struct {
		disturb func(c *kfake.Cluster)
		want    kafka.Ending // "": none is found
	}{
		"its coordinator has it": {func(*kfake.Cluster) {}, kafka.Ongoing},
		"no coordinator lists it": {func(c *kfake.Cluster) {
			c.ControlKey(int16(kmsg.ListTransactions), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl() // each broker is asked
				return req.ResponseKind(), nil, true
			})
		}, kafka.Unseen},
		"its coordinator has no part of it": {func(c *kfake.Cluster) {
			c.ControlKey(int16(kmsg.DescribeTransactions), func(req kmsg.Request) (kmsg.Response, error, bool) {
				res, _ := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
				state := kmsg.NewDescribeTransactionsResponseTransactionState()
				state.TransactionalID, state.State = "another", "CompleteAbort"
				res.TransactionStates = append(res.TransactionStates, state)
				return res, nil, true
			})
		}, kafka.Hanging},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3, 4)
			holding(t, c)
			tt.disturb(c)
			open, err := newClient(t, kafka.Options{Brokers: c.ListenAddrs()}).OpenTransactions(t.Context(), []string{"t", "missing"}, every)
			if err != nil || len(open.All) != 1 || open.DeniedError() != nil {
				t.Fatalf("%+v, %v", open, err)
			}
			if found := open.All[0]; found.Topic != "t" || found.Start != 0 || found.Ending != tt.want {
				t.Errorf("%+v", found)
			}
		})
	}
}

// A transaction ends while its coordinator is asked.
func TestTransactionEndsWhileItIsLookedAt(t *testing.T) {
	c := newCluster(t, 1, 1)
	cl := holding(t, c)
	open, err := newClient(t, kafka.Options{Brokers: c.ListenAddrs()}).OpenTransactions(t.Context(), []string{"t"}, func(*kafka.OpenTransaction) bool {
		if err := cl.EndTransaction(context.WithoutCancel(t.Context()), kgo.TryCommit); err != nil {
			t.Error(err)
		}
		return true
	})
	if err != nil || len(open.All) != 0 {
		t.Errorf("%+v, %v", open, err)
	}
}

func TestOpenTransactionsThatCannotBeListed(t *testing.T) {
	c := newCluster(t, 1, 1)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "t", Err: kerr.TopicAuthorizationFailed, Count: -1})
	open, err := newClient(t, kafka.Options{Brokers: c.ListenAddrs()}).OpenTransactions(t.Context(), []string{"t"}, every)
	if err != nil || !slices.Equal(open.Denied, []string{"t"}) || !strings.Contains(cdc.Explain(open.DeniedError()), "grant the relay's principal READ") {
		t.Errorf("without the right: %+v, %v", open, err)
	}
	old := newCluster(t, 1, 1, kfake.MaxVersions(kversion.V2_7_0()))
	if _, err := newClient(t, kafka.Options{Brokers: old.ListenAddrs()}).OpenTransactions(t.Context(), []string{"t"}, every); !errors.Is(err, kafka.ErrTransactionsUnknown) {
		t.Errorf("on old brokers: %v", err)
	}
}

// A problem names the command that ends the transaction.
func TestOpenTransactionProblem(t *testing.T) {
	for id, tt := range map[string]struct {
		ending kafka.Ending
		says   string
	}{
		"x":                {kafka.Ongoing, "forceTerminateTransaction --transactionalId x`"},
		"own":              {kafka.Ongoing, "start the relay that has the transactional ID"},
		"cdc-relay.orders": {kafka.Ongoing, "start the relay that has the transactional ID"},
		"y":                {kafka.Hanging, "abort --topic t --partition 3 --start-offset 12`"},
		"":                 {kafka.Unseen, "find-hanging --topic t --partition 3`"},
	} {
		tx := kafka.OpenTransaction{Topic: "t", Partition: 3, Producer: kafka.Producer{ID: 7}, Start: 12, Ending: tt.ending, TransactionalID: id}
		if said := cdc.Explain(tx.Problem("own")); !strings.Contains(said, tt.says) || !strings.HasPrefix(said, `a transaction of producer 7 is open in topic "t" partition 3`) {
			t.Errorf("%s %q: %s", tt.ending, id, said)
		}
	}
}
