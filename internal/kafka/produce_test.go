package kafka_test

import (
	"context"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// Encoded topics reach the broker in the request that sarama begins, also when sarama has to authenticate again first.
func TestProduce(t *testing.T) {
	cluster := newCluster(t, 1, 1)
	logins := shortSessions(cluster)
	produced := make(chan []kmsg.ProduceRequestTopic, 1)
	cluster.ControlKey(kmsg.Produce.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		produced <- req.(*kmsg.ProduceRequest).Topics
		return req.ResponseKind(), nil, true
	})
	conn, err := newClient(t, kafka.Options{Brokers: cluster.ListenAddrs(), SASL: &kafka.SASL{
		Mechanism: "PLAIN", Username: "relay", Password: func(context.Context) (string, error) { return "secret", nil },
	}}).Connect(t.Context(), cluster.ListenAddrs()[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for before := *logins; *logins == before; { // until a session has ended
		produce(t, conn, produced)
	}
}

// produce sends two topics and checks what arrives.
func produce(t *testing.T, conn *kafka.Conn, arrived <-chan []kmsg.ProduceRequestTopic) {
	t.Helper()
	answered := make(chan error, 1)
	req := &sarama.ProduceRequest{Version: 8, RequiredAcks: sarama.WaitForAll}
	topics := encodedTopics(strings.Repeat("x", 1<<20))
	if err := conn.Produce(req, topics, func(_ *sarama.ProduceResponse, err error) { answered <- err }); err != nil {
		t.Fatal(err)
	}
	if got := <-arrived; len(got) != 2 || got[0].Topic != "t" || got[1].Topic != "u" || len(got[1].Partitions[0].Records) != 1<<20 {
		t.Errorf("other topics arrived: %+v", got)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// shortSessions makes a broker accept everybody, for a millisecond, and count the logins.
func shortSessions(c *kfake.Cluster) *int {
	var n int
	c.ControlKey(kmsg.SASLHandshake.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return req.ResponseKind(), nil, true
	})
	c.ControlKey(kmsg.SASLAuthenticate.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		n++
		res := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		res.SessionLifetimeMillis = 1
		return res, nil, true
	})
	return &n
}

// encodedTopics is the array of topics of a request with two of them.
func encodedTopics(records string) []byte {
	var req kmsg.ProduceRequest
	req.SetVersion(8)
	for _, name := range []string{"t", "u"} {
		topic := kmsg.ProduceRequestTopic{Topic: name}
		topic.Partitions = append(topic.Partitions, kmsg.ProduceRequestTopicPartition{Records: []byte(records)})
		req.Topics = append(req.Topics, topic)
	}
	const transactionalIDAcksTimeout = 2 + 2 + 4
	return req.AppendTo(nil)[transactionalIDAcksTimeout:]
}
