package publisher

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// Encoded records are written into a field that sarama does not export; without it encoding costs twice as much
// (BenchmarkEncode). That sarama sends them unchanged, does not modify them and keeps no reference to them after a
// request is written was verified by reading this version.
func TestSaramaKeepsEncodedRecords(t *testing.T) {
	if encodedRecords(&sarama.RecordBatch{}) == nil {
		t.Error("sarama.RecordBatch has no field compressedRecords any more")
	}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "github.com/IBM/sarama v1.61.1\n") {
		t.Error("another version of sarama: read record_batch.go and Broker.sendInternal again, then name it here")
	}
}

// BenchmarkEncode says what the write into sarama's private field saves, from messages to bytes on a connection: our
// encoding beside sarama's. It is the reason for encodedRecords.
func BenchmarkEncode(b *testing.B) {
	const size = 250
	broker := sinkBroker(b)
	p := &partition{topic: &topic{name: "bench"}}
	for i := range size {
		m := benchMessage(i)
		p.queue.push(entry{m: m, body: int32(bodySize(m))})
	}
	for _, c := range []struct {
		name   string
		encode func(*batch)
	}{
		{"ours", func(b *batch) { b.encodeOurs(encodedRecords(&b.rb)) }},
		{"saramas", (*batch).encodeTheirs},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var pool batchPool
			before := processorTime(b)
			for b.Loop() {
				batch := pool.get()
				batch.fill(p, size, size*400, sarama.CompressionNone)
				c.encode(batch)
				req := &sarama.ProduceRequest{Version: produceVersion, RequiredAcks: sarama.NoResponse}
				req.AddBatch("bench", 0, &batch.rb)
				if err := broker.AsyncProduce(req, nil); err != nil {
					b.Fatal(err)
				}
				pool.put(batch)
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N*size), "cpu-ns/event")
		})
	}
}

// processorTime is what this process has used, in nanoseconds: unlike the time it does not depend on other processes.
func processorTime(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// benchMessage is like what the router makes of a row of 385 bytes.
func benchMessage(i int) *cdc.Message {
	m := &cdc.Message{Topic: "bench", Key: fmt.Appendf(nil, "order-%08d", i), Value: bytes.Repeat([]byte("x"), 250)}
	for _, name := range []string{"ce_id", "ce_type", "ce_source", "ce_subject"} {
		m.Headers = append(m.Headers, cdc.Header{Key: []byte(name), Value: []byte("0192a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b")})
	}
	return m
}

// sinkBroker is a connection to somebody who reads and never answers.
func sinkBroker(b *testing.B) *sarama.Broker {
	b.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		if conn, err := l.Accept(); err == nil {
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	conf := sarama.NewConfig()
	conf.Version, conf.ApiVersionsRequest, conf.MetricRegistry = sarama.MaxVersion, false, kafka.NoMetrics()
	broker := sarama.NewBroker(l.Addr().String())
	if err := broker.Open(conf); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = broker.Close(), l.Close() })
	return broker
}
