package kafka_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// answering answers the requests to commit with codes, one after the other, and then with success; -1 is no answer, and
// ends the connection. A request to abort fails the test.
func answering(t *testing.T, c *kfake.Cluster, codes ...int16) {
	t.Helper()
	c.ControlKey(kmsg.FindCoordinator.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		res, _ := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
		address := netip.MustParseAddrPort(c.ListenAddrs()[0])
		res.Host, res.Port = address.Addr().String(), int32(address.Port())
		return res, nil, true
	})
	c.ControlKey(kmsg.EndTxn.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if end, _ := req.(*kmsg.EndTxnRequest); !end.Commit {
			t.Error("a transaction is aborted under its epoch")
		}
		res, _ := req.ResponseKind().(*kmsg.EndTxnResponse)
		if len(codes) > 0 {
			res.ErrorCode, codes = codes[0], codes[1:]
		}
		if res.ErrorCode == -1 {
			return nil, errors.New("no answer"), true
		}
		return res, nil, true
	})
}

// A commit without an answer may have been done or not, and is not repeated: only a new producer can tell.
func TestCommit(t *testing.T) {
	for name, tt := range map[string]struct {
		codes  []int16
		rewind bool  // a new producer is needed
		want   error // nil: any, or none without rewind
	}{
		"done":                                {nil, false, nil},
		"busy with the transaction before":    {[]int16{kerr.ConcurrentTransactions.Code}, false, sarama.ErrConcurrentTransactions},
		"no answer":                           {[]int16{-1}, true, nil},
		"fenced":                              {[]int16{kerr.ProducerFenced.Code}, true, cdc.ErrFenced},
		"denied":                              {[]int16{kerr.TransactionalIDAuthorizationFailed.Code}, false, sarama.ErrTransactionalIDAuthorizationFailed},
		"timed out":                           {[]int16{kerr.InvalidTxnState.Code}, true, nil},
		"the coordinator has moved, not done": {[]int16{kerr.NotCoordinator.Code}, false, sarama.ErrNotCoordinatorForConsumer},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t, 1, 1)
			answering(t, cluster, tt.codes...)
			txns := newClient(t, kafka.Options{Brokers: cluster.ListenAddrs()}).Transactions("x")
			defer txns.Close()
			err := txns.Commit(t.Context(), kafka.Producer{ID: 1})
			if err != nil && strings.Contains(err.Error(), "producer ID") {
				t.Errorf("none was asked for: %v", err)
			}
			if errors.Is(err, cdc.ErrRewind) != tt.rewind || !tt.rewind && !errors.Is(err, tt.want) || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("%v", err)
			}
		})
	}
}
