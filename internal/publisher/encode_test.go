package publisher

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// testRequest has a batch of n messages for each of two partitions of some topics.
func testRequest(topics, n int) *request {
	r := &request{sentAt: time.UnixMilli(1_700_000_000_123), produce: sarama.ProduceRequest{
		Version: produceVersion, RequiredAcks: sarama.NoResponse, Timeout: 1000,
	}}
	for i := range topics * 2 {
		p := &partition{topic: &topic{name: fmt.Sprintf("topic-%d", i/2)}, id: int32(i % 2)}
		b := &batch{req: r}
		for j := range n {
			m := testMessage(i + j)
			p.queue.push(queuedMessage{m: m, body: int32(bodySize(m))})
			b.bytes += bodySize(m) + 4
		}
		b.fill(p, n, b.bytes, sarama.CompressionNone)
		b.stamp(kafka.Producer{ID: 4711, Epoch: 3}, int32(1000*i))
		r.batches = append(r.batches, b)
		r.bytes += b.bytes
	}
	return r
}

// testMessage is like what the router makes of a row of 385 bytes.
func testMessage(i int) *cdc.Message {
	m := &cdc.Message{Topic: "bench", Key: fmt.Appendf(nil, "order-%08d", i), Value: bytes.Repeat([]byte("x"), 250)}
	for _, name := range []string{"ce_id", "ce_type", "ce_source", "ce_subject"} {
		m.Headers = append(m.Headers, cdc.Header{Key: []byte(name), Value: []byte("0192a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b")})
	}
	return m
}

// sink accepts a connection, gives it to serve and returns the address.
func sink(tb testing.TB, serve func(net.Conn)) string {
	tb.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	go func() {
		if conn, err := l.Accept(); err == nil {
			serve(conn)
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

// saramas is a connection of sarama alone, to somebody who never answers.
func saramas(tb testing.TB, addr string) *sarama.Broker {
	tb.Helper()
	conf := sarama.NewConfig()
	conf.Version, conf.ApiVersionsRequest = sarama.MaxVersion, false
	broker := sarama.NewBroker(addr)
	if err := broker.Open(conf); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = broker.Close() })
	return broker
}

// A request means the same as the one that sarama makes of the same batches.
func TestRequestMeansSaramas(t *testing.T) {
	r := testRequest(3, 5)
	frames := make(chan []byte, 1)
	broker := saramas(t, sink(t, func(conn net.Conn) {
		frame, _ := io.ReadAll(conn)
		frames <- frame
	}))
	ours := r.appendTopics(nil)
	r.addBatches()
	if err := broker.AsyncProduce(&r.produce, nil); err != nil {
		t.Fatal(err)
	}
	if err := broker.Close(); err != nil {
		t.Fatal(err)
	}
	frame := <-frames
	const fixed, clientID = 4 + 2 + 2 + 4 + 2, len("sarama")
	want := parsed(t, frame[fixed+clientID:])
	prefix := frame[fixed+clientID:][:2+2+4] // the transactional ID, acks, the timeout
	got := parsed(t, append(bytes.Clone(prefix), ours...))
	if len(want) != 6 || !reflect.DeepEqual(got, want) {
		t.Errorf("encoded %x\nsarama encodes %x", got, want)
	}
}

// parsed returns the batches of a produce request by topic and partition.
func parsed(t *testing.T, body []byte) map[string][]byte {
	t.Helper()
	var req kmsg.ProduceRequest
	req.SetVersion(produceVersion)
	if err := req.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	batches := map[string][]byte{}
	for _, topic := range req.Topics {
		for _, p := range topic.Partitions {
			batches[fmt.Sprintf("%s/%d", topic.Topic, p.Partition)] = p.Records
		}
	}
	return batches
}
