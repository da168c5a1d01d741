package publisher_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceKey is the API key of Produce.
const produceKey = 0

// producerID is a producer ID and its epoch.
type producerID struct {
	id    int64
	epoch int16
}

// sent is a batch as a broker received it.
type sent struct {
	topic     string
	partition int32
	pid       producerID
	seq, n    int32
	records   []byte
}

// watcher records the batches that reach the brokers.
type watcher struct {
	mu  sync.Mutex
	all []sent
}

// watch notes every produce request, also those that a fault answers.
func watch(c *kfake.Cluster) *watcher {
	w := &watcher{}
	c.ControlKey(produceKey, func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		w.note(batches(req))
		return nil, nil, false
	})
	return w
}

func (w *watcher) note(all []sent) {
	w.mu.Lock()
	w.all = append(w.all, all...)
	w.mu.Unlock()
}

func (w *watcher) list() []sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]sent(nil), w.all...)
}

// sequences checks that each partition's sequence numbers begin at 0 for each producer ID and epoch and have no gap; an
// attempt may be repeated. It returns the producer IDs in the order of use.
func (w *watcher) sequences(t *testing.T) (pids []producerID) {
	t.Helper()
	type place struct {
		pid       producerID
		topic     string
		partition int32
	}
	last := map[place]sent{}
	for _, b := range w.list() {
		at := place{b.pid, b.topic, b.partition}
		if before, ok := last[at]; b.seq != before.seq && b.seq != before.seq+before.n || !ok && b.seq != 0 {
			t.Errorf("producer %v partition %d: sequence %d after %d with %d records", b.pid, b.partition, b.seq, before.seq, before.n)
		}
		last[at] = b
		if !slices.Contains(pids, b.pid) {
			pids = append(pids, b.pid)
		}
	}
	return pids
}

// batches returns the batches of a produce request.
func batches(req kmsg.Request) []sent {
	var all []sent
	r, ok := req.(*kmsg.ProduceRequest)
	if !ok {
		return nil
	}
	for _, tp := range r.Topics {
		for _, p := range tp.Partitions {
			b := p.Records
			all = append(all, sent{
				topic: tp.Topic, partition: p.Partition,
				pid: producerID{int64(binary.BigEndian.Uint64(b[43:])), int16(binary.BigEndian.Uint16(b[51:]))}, seq: int32(binary.BigEndian.Uint32(b[53:])),
				n: int32(binary.BigEndian.Uint32(b[57:])), records: bytes.Clone(b[61:]),
			})
		}
	}
	return all
}

// holds reports whether a produce request has a batch with the text in it.
func holds(text string) func(kmsg.Request) bool {
	return func(req kmsg.Request) bool {
		for _, b := range batches(req) {
			if bytes.Contains(b.records, []byte(text)) {
				return true
			}
		}
		return false
	}
}

// answer gives every batch of a produce request the same code.
func answer(req kmsg.Request, code int16) *kmsg.ProduceResponse {
	r := req.(*kmsg.ProduceRequest)
	res := r.ResponseKind().(*kmsg.ProduceResponse)
	res.Version = r.Version
	for _, tp := range r.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic = tp.Topic
		for _, p := range tp.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			t.Partitions = append(t.Partitions, rp)
		}
		res.Topics = append(res.Topics, t)
	}
	return res
}

// refuseNaming answers a batch that holds the text as brokers from Kafka 2.4 on do: with the index of the
// record. Requests have one batch; others pass.
func refuseNaming(c *kfake.Cluster, text string, code int16, index func(sent) int32) {
	c.ControlKey(produceKey, func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if !holds(text)(req) {
			return nil, nil, false
		}
		res := answer(req, code)
		e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		e.RelativeOffset, e.ErrorMessage = index(batches(req)[0]), new("this one")
		p := &res.Topics[0].Partitions[0]
		p.ErrorRecords = append(p.ErrorRecords, e)
		return res, nil, true
	})
}
