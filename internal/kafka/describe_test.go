package kafka_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// Where only the controller creates topics, a client that asks another broker goes on until it has found it.
func TestTopicIsCreatedByTheController(t *testing.T) {
	c := newCluster(t, 3, 1)
	for i := range 8 { // each begins with any broker
		name := fmt.Sprint("made-", i)
		client := newClient(t, kafka.Options{Brokers: c.ListenAddrs()})
		if created, err := client.EnsureTopics(t.Context(), []string{name}, &kafka.TopicSpec{Partitions: 1, ReplicationFactor: 1}); err != nil || !slices.Equal(created, []string{name}) {
			t.Fatalf("created %v, error %v", created, err)
		}
	}
}

func TestDescribe(t *testing.T) {
	c := newCluster(t, 3, 4)
	client := newClient(t, kafka.Options{Brokers: c.ListenAddrs()})
	spec := &kafka.TopicSpec{Partitions: 2, ReplicationFactor: 1, Configs: map[string]string{"min.insync.replicas": "2", "max.message.bytes": "5000"}}
	if created, err := client.EnsureTopics(t.Context(), []string{"t", "tight"}, spec); err != nil || !slices.Equal(created, []string{"tight"}) {
		t.Fatalf("created %v, error %v", created, err)
	}
	d, err := client.Describe(t.Context(), []string{"t", "tight", "nowhere", "bad name!"}, "cdc-relay.test")
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Brokers) != 3 || d.ProducerID != nil {
		t.Errorf("%d brokers, producer id %v", len(d.Brokers), d.ProducerID)
	}
	for _, b := range d.Brokers {
		if b.Err != nil {
			t.Error(b.Err)
		}
	}
	byName := map[string]kafka.TopicInfo{}
	for _, tp := range d.Topics {
		byName[tp.Name] = tp
	}
	if tp := byName["t"]; tp.Err != nil || tp.Partitions != 4 || tp.MaxMessageBytes != 1048588 || tp.CleanupPolicy != "delete" || tp.Write == kafka.Denied {
		t.Errorf("topic t: %+v", tp)
	}
	if tp := byName["tight"]; tp.MinISR != 2 || len(tp.UnderMinISR) != 2 || tp.MaxMessageBytes != 5000 {
		t.Errorf("topic tight: %+v", tp)
	}
	if tp := byName["nowhere"]; !tp.Missing || tp.Err == nil {
		t.Errorf("topic nowhere: %+v", tp)
	}
	if tp := byName["bad name!"]; tp.Err == nil {
		t.Errorf("topic with a bad name: %+v", tp)
	}
	for code, stops := range map[*kerr.Error]bool{kerr.TopicAuthorizationFailed: true, kerr.UnknownServerError: false} {
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: code})
		d, _ := client.Describe(t.Context(), []string{"tight"}, "")
		err := d.Topics[0].LetterProblem(2)
		if _, stopped := errors.AsType[*cdc.StopError](err); err == nil || stopped != stops {
			t.Errorf("settings cannot be read (%s): %v", code.Message, err)
		}
	}
}

// TakeOver and Describe return the same error, with its fix, when no producer ID can be had.
func TestNoProducerID(t *testing.T) {
	coordinator, init := []kmsg.Key{kmsg.FindCoordinator}, []kmsg.Key{kmsg.InitProducerID}
	tests := map[string]struct {
		keys  []kmsg.Key
		err   *kerr.Error
		stops bool // else it is worth a retry
		says  string
	}{
		"FindCoordinator is denied":  {coordinator, kerr.TransactionalIDAuthorizationFailed, true, `grant the relay's principal WRITE on the transactional ID "cdc-relay.`},
		"InitProducerId is denied":   {init, kerr.TransactionalIDAuthorizationFailed, true, "with at-least-once delivery set kafka.transactional_id: none"},
		"transactions are too short": {init, kerr.InvalidTransactionTimeout, true, "transaction.max.timeout.ms to 60000"},
		"no grant at all":            {init, kerr.ClusterAuthorizationFailed, true, "IDEMPOTENT_WRITE"},
		"no coordinator":             {coordinator, kerr.CoordinatorNotAvailable, false, "transaction.state.log.replication.factor"},
		"the coordinator is loading": {init, kerr.CoordinatorLoadInProgress, false, "get a producer ID"},
		"the coordinator has moved":  {init, kerr.NotCoordinator, false, "get a producer ID"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2, 1)
			f := c.Fault(kfake.Fault{Keys: tt.keys, Err: tt.err, TopLevel: true, Count: -1})
			client := newClient(t, kafka.Options{Brokers: c.ListenAddrs()})
			d, err := client.Describe(t.Context(), nil, "cdc-relay.check")
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.TakeOver(t.Context(), "cdc-relay.x")
			for how, err := range map[string]error{"taken over": err, "described": d.ProducerID} {
				var stop *cdc.StopError
				if errors.As(err, &stop) != tt.stops || stop != nil && stop.Class != cdc.ClassConfig {
					t.Errorf("%s: %v, want a stop: %t", how, err, tt.stops)
				}
				if err == nil || !strings.Contains(cdc.Explain(err), tt.says) {
					t.Errorf("%s: %v, want it to say %q", how, err, tt.says)
				}
			}
			f.Remove()
			if _, err := client.TakeOver(t.Context(), "cdc-relay.x"); err != nil {
				t.Errorf("taken over again: %v", err)
			}
		})
	}
}

// A coordinator that is busy with the same transactional ID has authorized the request.
func TestDescribeBesideAnotherRequest(t *testing.T) {
	c := newCluster(t, 1, 1)
	c.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		r := req.(*kmsg.InitProducerIDRequest)
		if r.TransactionalID == nil {
			return nil, nil, false
		}
		res := r.ResponseKind().(*kmsg.InitProducerIDResponse)
		res.Version, res.ErrorCode = r.Version, kerr.ConcurrentTransactions.Code
		return res, nil, true
	})
	d, err := newClient(t, kafka.Options{Brokers: c.ListenAddrs()}).Describe(t.Context(), nil, "cdc-relay.check")
	if err != nil || d.ProducerID != nil {
		t.Errorf("%v, producer ID: %v", err, d.ProducerID)
	}
}
