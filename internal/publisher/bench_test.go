package publisher_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
)

// BenchmarkPublish measures an event's way through the publisher, batches of 250 of them, as the relay
// does it: Routeds are used again once they are answered. The broker is in the same process unless
// CDC_RELAY_BENCH_KAFKA names others.
func BenchmarkPublish(b *testing.B) {
	for _, compression := range []string{"none", "lz4", "zstd", "snappy", "gzip"} {
		b.Run(compression, func(b *testing.B) { benchmark(b, compression, 1, 8) })
	}
}

// BenchmarkManyTopics is BenchmarkPublish with 500 topics of 4 partitions, in no order: each batch holds few records.
func BenchmarkManyTopics(b *testing.B) { benchmark(b, "none", 500, 4) }

func benchmark(b *testing.B, compression string, topics, partitions int) {
	b.Helper()
	p := opened(b, compression, partitions)
	const size, open = 250, 64
	idle := make(chan *cdc.Routed, open)
	out := make([]*cdc.Routed, 0, 1<<16)
	for range open {
		idle <- routed(size, topics)
	}
	run := func(from, to int) {
		answered := from
		for sent := from; answered < to; {
			in := idle
			if sent == to {
				in = nil
			}
			select {
			case r := <-in:
				sent++
				r.Batch.Seq = uint64(sent)
				r.Batch.Txs[0].Time = time.Now().UnixMicro()
				out = append(out, r)
				if err := p.Send(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			case d := <-p.Durable():
				if d.Err != nil {
					b.Fatal(d.Err)
				}
				for seq := d.First; seq <= d.Last; seq++ {
					idle <- out[seq-1]
					answered++
				}
			}
		}
	}
	warm := 4 * open
	run(0, warm)
	b.ReportAllocs()
	b.ResetTimer()
	before := usage()
	n := (b.N + size - 1) / size
	run(warm, warm+n)
	after := usage()
	spent := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(spent)/float64(n*size), "cpu-ns/event")
	b.ReportMetric(float64(after.Maxrss)/1024, "peak-MiB")
}

// routed is like what the router makes of a row of 385 bytes: a payload, a key and the headers of a
// CloudEvent.
func routed(n, topics int) *cdc.Routed {
	r := &cdc.Routed{Batch: &cdc.Batch{Txs: make([]cdc.Tx, 1)}}
	payload := bytes.Repeat([]byte("x"), 250)
	for range n {
		m := cdc.Message{Topic: "bench-" + strconv.Itoa(rand.IntN(topics)), Key: fmt.Appendf(nil, "order-%08d", rand.IntN(5000)), Value: payload}
		for _, h := range [][2]string{
			{"ce_specversion", "1.0"},
			{"ce_id", "0192a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"},
			{"ce_type", "order.created"},
			{"ce_source", "/shop/public.outbox"},
			{"ce_subject", "order-12345678"},
			{"ce_time", "2026-01-02T03:04:05.678901Z"},
			{"content-type", "application/json"},
			{"ce_sequence", "0000000123456789"},
		} {
			m.Headers = append(m.Headers, cdc.Header{Key: []byte(h[0]), Value: []byte(h[1])})
		}
		r.Messages = append(r.Messages, m)
	}
	return r
}

// usage is what this process has used so far.
func usage() syscall.Rusage {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u
}

// opened opens a publisher to the broker named by CDC_RELAY_BENCH_KAFKA, or to one in the same process.
func opened(b *testing.B, compression string, partitions int) *publisher.Publisher {
	b.Helper()
	broker := os.Getenv("CDC_RELAY_BENCH_KAFKA")
	if broker == "" {
		broker, _ = startAcker(b, partitions, 0)
	}
	opts := optionsAt(broker)
	opts.Strict, opts.Compression, opts.TransactionalID = false, compression, kafka.TransactionalNone
	p := publisher.New(opts, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	b.Cleanup(p.Kill)
	if err := p.Open(b.Context(), "cdc-relay.bench"); err != nil {
		b.Fatal(err)
	}
	return p
}
