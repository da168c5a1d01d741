package publisher_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// acker is a broker that says yes to everything and keeps nothing, so that benchmarks measure the publisher.
type acker struct {
	tb         testing.TB
	host       string
	port       int32
	partitions int
	swallow    atomic.Int32  // that many produce requests get no answer
	swallowed  chan struct{} // a request got none
}

// startAcker starts one and returns its address. It leaves the first swallow produce requests unanswered.
func startAcker(tb testing.TB, partitions, swallow int) (string, *acker) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	host, port, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.Atoi(port)
	a := &acker{tb: tb, host: host, port: int32(n), partitions: partitions, swallowed: make(chan struct{}, 1000)}
	a.swallow.Store(int32(swallow))
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go a.serve(conn)
		}
	}()
	return l.Addr().String(), a
}

func (a *acker) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 1<<20)
	var frame []byte
	for {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return
		}
		if n := int(binary.BigEndian.Uint32(size[:])); cap(frame) < n {
			frame = make([]byte, n)
		} else {
			frame = frame[:n]
		}
		if _, err := io.ReadFull(in, frame); err != nil {
			return
		}
		if key := binary.BigEndian.Uint16(frame); key == produceKey && a.swallow.Add(-1) >= 0 {
			a.swallowed <- struct{}{}
			continue
		}
		if _, err := conn.Write(a.answer(frame)); err != nil {
			return
		}
	}
}

func (a *acker) answer(frame []byte) []byte {
	r := kbin.Reader{Src: frame}
	key, version, correlation := r.Int16(), r.Int16(), r.Int32()
	r.NullableString() // client id
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	if req.IsFlexible() {
		r.Uvarint()
	}
	if err := req.ReadFrom(r.Src); err != nil {
		a.tb.Errorf("request %d, version %d: %v", key, version, err)
	}
	res := req.ResponseKind()
	res.SetVersion(version)
	a.fill(req, res)
	out := make([]byte, 8, 1024)
	binary.BigEndian.PutUint32(out[4:], uint32(correlation))
	if res.IsFlexible() && key != kmsg.ApiVersions.Int16() {
		out = append(out, 0)
	}
	out = res.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

func (a *acker) fill(req kmsg.Request, res kmsg.Response) {
	switch res := res.(type) {
	case *kmsg.ApiVersionsResponse:
		for key, most := range map[int16]int16{0: 10, 3: 11, 18: 3, 22: 4, 32: 4} {
			res.ApiKeys = append(res.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: most})
		}
	case *kmsg.InitProducerIDResponse:
		res.ProducerID = 7
	case *kmsg.MetadataResponse:
		a.metadata(req.(*kmsg.MetadataRequest), res)
	case *kmsg.ProduceResponse:
		for _, tp := range req.(*kmsg.ProduceRequest).Topics {
			t := kmsg.ProduceResponseTopic{Topic: tp.Topic}
			for _, p := range tp.Partitions {
				t.Partitions = append(t.Partitions, kmsg.ProduceResponseTopicPartition{Partition: p.Partition})
			}
			res.Topics = append(res.Topics, t)
		}
	}
}

func (a *acker) metadata(req *kmsg.MetadataRequest, res *kmsg.MetadataResponse) {
	res.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: a.host, Port: a.port}}
	for _, tp := range req.Topics {
		t := kmsg.MetadataResponseTopic{Topic: tp.Topic}
		for p := range a.partitions {
			t.Partitions = append(t.Partitions, kmsg.MetadataResponseTopicPartition{
				Partition: int32(p), Leader: 1, Replicas: []int32{1}, ISR: []int32{1},
			})
		}
		res.Topics = append(res.Topics, t)
	}
}
