package publisher

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Each of three brokers is killed and started again under load: nothing is lost, reordered or duplicated, because batches
// are sent again with the same sequence numbers.
func TestBrokersKilledInTurn(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t, testenv.KafkaOptions{Brokers: 3, Settings: map[string]string{"min.insync.replicas": "2"}})
	newTopic(t, k, "turns", 6, nil)
	s := open(t, publisher.Options{Kafka: kafka.Options{Brokers: k.Bootstrap(), RequestTimeout: 5 * time.Second}})
	stop, sent := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-stop:
				sent <- n
				return
			case <-pace.C:
				s.send(t, numbered("turns", n*10, 10, 41)...)
				n++
			}
		}
	}()
	progress := func(what string) {
		t.Helper()
		s.mu.Lock()
		before := len(s.done)
		s.mu.Unlock()
		eventually(t, soon, "answers "+what, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.done) > before+50
		})
	}
	for _, b := range k.Brokers() {
		b.Kill()
		progress(fmt.Sprintf("without broker %d", b.ID))
		if err := b.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := k.AwaitHealthy(t.Context()); err != nil {
			t.Fatal(err)
		}
		progress(fmt.Sprintf("with broker %d back", b.ID))
	}
	close(stop)
	n := <-sent
	if err := s.await(t, soon, n); err != nil {
		t.Fatal(err)
	}
	o := newOrder(41)
	readAll(t, k.Bootstrap(), "turns", func(r *kgo.Record) bool {
		o.check(t, r)
		return len(o.seen) == n*10
	})
	t.Logf("%d events", n*10)
	o.once(t)
}

// The network drops a broker's responses, then its requests, then its connections: the publisher recovers from each.
func TestNetworkFaults(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t, testenv.KafkaOptions{Proxied: true})
	newTopic(t, k, "network", 4, nil)
	proxy := k.Brokers()[0].Proxy()
	s := open(t, publisher.Options{Kafka: kafka.Options{Brokers: k.Addrs(testenv.ListenerProxied), RequestTimeout: 2 * time.Second}})
	rounds := 0
	burst := func() {
		for range 20 {
			s.send(t, numbered("network", rounds*10, 10, 13)...)
			rounds++
		}
	}
	settled := func() {
		t.Helper()
		if err := s.await(t, soon, rounds); err != nil {
			t.Fatal(err)
		}
	}
	burst()
	settled()
	for _, d := range []testenv.Direction{testenv.Responses, testenv.Requests} {
		if err := proxy.Swallow(d); err != nil {
			t.Fatal(err)
		}
		burst()
		pause := time.After(3 * time.Second) // longer than the request timeout
		<-pause
		proxy.Heal(t.Context())
		settled()
	}
	proxy.Cut()
	burst()
	if err := proxy.Restore(); err != nil {
		t.Fatal(err)
	}
	settled()
	o := newOrder(13)
	readAll(t, k.Bootstrap(), "network", func(r *kgo.Record) bool {
		o.check(t, r)
		return len(o.seen) == rounds*10
	})
	o.once(t)
}

// Without a right nothing is published, and the error names the right.
//
//covers:all 25 messages
func TestMissingRights(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t, testenv.KafkaOptions{Secure: true, Settings: map[string]string{
		"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS",
	}})
	newTopic(t, k, "closed", 1, nil)
	s := open(t, publisher.Options{Kafka: kafka.Options{Brokers: k.Bootstrap()}}) // ANONYMOUS has all rights
	s.send(t, numbered("closed", 0, 1, 1)...)
	if err := s.await(t, soon, 1); err != nil {
		t.Fatal(err)
	}
	login := &kafka.SASL{Mechanism: "PLAIN", Username: testenv.KafkaUser, Password: func(context.Context) (string, error) { return testenv.KafkaPassword, nil }}
	conn := kafka.Options{Brokers: k.Addrs(testenv.ListenerSASL), SASL: login}
	p := unopened(t, publisher.Options{Kafka: conn})
	d := describe(t, conn, kafka.TransactionalPrefix+"check", "closed")
	if tp := d.Topics[0]; tp.Err == nil || d.ProducerID == nil {
		t.Errorf("no error for topic %+v, producer ID %v", tp, d.ProducerID)
	}
	if err := p.Open(t.Context(), "cdc-relay.test"); err == nil || !strings.Contains(cdc.Explain(err), `on the transactional ID "cdc-relay.test"`) {
		t.Errorf("without any right it opened with %v", err)
	}
	grant(t, k, kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTransactionalId, kmsg.ACLResourcePatternTypePrefixed, kafka.TransactionalPrefix)
	grant(t, k, kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypeLiteral, "closed")
	relay := open(t, publisher.Options{Kafka: conn})
	relay.send(t, numbered("closed", 1, 1, 1)...)
	if err := relay.await(t, soon, 1); err != nil {
		t.Errorf("with the rights that the errors name: %v", err)
	}
	if d := describe(t, conn, kafka.TransactionalPrefix+"check", "closed"); d.ProducerID != nil || d.Topics[0].Err != nil {
		t.Errorf("with the rights that the errors name, described as %+v", d)
	}
	newTopic(t, k, "positions", 1, map[string]string{"cleanup.policy": "compact"})
	exactlyOnce := unopened(t, publisher.Options{Kafka: conn, PositionTopic: "positions"})
	opens := func(problem string) { // "": without one; as soon as the brokers know the grant before
		t.Helper()
		var got string
		for began := time.Now(); time.Since(began) < soon; {
			err := exactlyOnce.Open(t.Context(), "cdc-relay.test", "not-granted")
			if err != nil {
				got = err.Error()
			}
			if (err == nil) == (problem == "") && strings.Contains(got, problem) {
				return
			}
		}
		t.Errorf("opened with %q, want %q", got, problem)
	}
	for _, right := range []struct {
		problem   string
		operation kmsg.ACLOperation
	}{
		{"cannot be used", kmsg.ACLOperationWrite},
		{"may not be read", kmsg.ACLOperationRead},
		{"may not be described", kmsg.ACLOperationDescribeConfigs},
	} {
		opens(right.problem)
		grant(t, k, right.operation, kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypeLiteral, "positions")
	}
	opens("")
}

// grant gives the test's user a right.
func grant(t *testing.T, k *testenv.KafkaCluster, operation kmsg.ACLOperation, kind kmsg.ACLResourceType, pattern kmsg.ACLResourcePatternType, name string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.Bootstrap()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	rule := kmsg.NewCreateACLsRequestCreation()
	rule.ResourceType, rule.ResourcePatternType, rule.ResourceName = kind, pattern, name
	rule.Principal, rule.Host = "User:"+testenv.KafkaUser, "*"
	rule.Operation, rule.PermissionType = operation, kmsg.ACLPermissionTypeAllow
	req := kmsg.NewPtrCreateACLsRequest()
	req.Creations = append(req.Creations, rule)
	res, err := req.RequestWith(t.Context(), cl)
	if err == nil {
		err = kerr.ErrorForCode(res.Results[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A broker with SASL reauthentication (KIP-368) requires credentials again on open connections.
func TestSASLSessionsExpire(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t, testenv.KafkaOptions{Secure: true, Settings: map[string]string{"connections.max.reauth.ms": "1500"}})
	newTopic(t, k, "sessions", 4, nil)
	login := &kafka.SASL{Mechanism: "SCRAM-SHA-256", Username: testenv.KafkaUser, Password: func(context.Context) (string, error) { return testenv.KafkaPassword, nil }}
	s := open(t, publisher.Options{Kafka: kafka.Options{Brokers: k.Addrs(testenv.ListenerSASL), SASL: login}})
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	rounds := 0
	for began := time.Now(); time.Since(began) < 5*time.Second; rounds++ {
		<-pace.C
		s.send(t, numbered("sessions", rounds*10, 10, 13)...)
	}
	if err := s.await(t, soon, rounds); err != nil {
		t.Fatal(err)
	}
	o := newOrder(13)
	readAll(t, k.Bootstrap(), "sessions", func(r *kgo.Record) bool {
		o.check(t, r)
		return len(o.seen) == rounds*10
	})
	o.once(t)
}
