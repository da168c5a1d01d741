package publisher

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

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
	durable(t, s, 1)
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
	grant(t, k, kadm.NewACLs().TransactionalIDs(kafka.TransactionalPrefix).ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpWrite))
	grant(t, k, kadm.NewACLs().Topics("closed").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpWrite))
	relay := open(t, publisher.Options{Kafka: conn})
	relay.send(t, numbered("closed", 1, 1, 1)...)
	if err := relay.await(t, soon, 1); err != nil {
		t.Errorf("with the rights that the errors name: %v", err)
	}
	if d := describe(t, conn, "cdc-relay.test", "closed"); d.ProducerID != nil || d.Topics[0].Err != nil {
		t.Errorf("with the rights that the errors name, described as %+v", d)
	}
	relay.send(t, numbered("closed", 2, 1, 1)...)
	durable(t, relay, 2) // to describe fences none
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
		operation kadm.ACLOperation
	}{
		{"cannot be used", kadm.OpWrite},
		{"may not be read", kadm.OpRead},
		{"may not be described", kadm.OpDescribeConfigs},
	} {
		opens(right.problem)
		grant(t, k, kadm.NewACLs().Topics("positions").ResourcePatternType(kadm.ACLPatternLiteral).Operations(right.operation))
	}
	opens("")
}

// grant gives the test's user a right.
func grant(t *testing.T, k *testenv.KafkaCluster, right *kadm.ACLBuilder) {
	t.Helper()
	results, err := admin(t, k).CreateACLs(t.Context(), right.Allow("User:"+testenv.KafkaUser).AllowHosts("*"))
	if err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
}
