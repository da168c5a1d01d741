package publisher_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// values returns the values of one partition's records in order.
func values(records []*kgo.Record) []string {
	slices.SortStableFunc(records, func(a, b *kgo.Record) int { return int(a.Offset - b.Offset) })
	all := make([]string, len(records))
	for i, r := range records {
		all[i] = string(r.Value)
	}
	return all
}

func counting(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("v%02d", i)
	}
	return all
}

// poisoned sends 20 messages of one key with the eleventh being one that the broker will not have, in few
// batches, because the first is held up.
func poisoned(t *testing.T, s *sink) {
	t.Helper()
	for i := range 20 {
		value := fmt.Sprintf("v%02d", i)
		if i == 10 {
			value = "poison"
		}
		s.send(t, msg("k", value))
	}
}

// A record that the broker will not have stops the publisher behind what came before it, or is dropped alone, whether the broker names it or not.
func TestRejectedRecord(t *testing.T) {
	for _, named := range []bool{false, true} {
		for _, policy := range []cdc.Policy{cdc.PolicyStop, cdc.PolicyDrop} {
			t.Run(fmt.Sprintf("named=%v/%s", named, policy), func(t *testing.T) {
				c := newCluster(t, 1, 1)
				reject(t, c, named)
				opts, want, dropped := options(c), slices.Delete(counting(20), 10, 11), 1.0
				opts.Rejected = policy
				s := open(t, opts)
				poisoned(t, s)
				if policy == cdc.PolicyStop {
					want, dropped = counting(10), 0
					err := s.failed(t)
					if cdc.ReasonOf(err) != "rejected" {
						t.Errorf("error %v, want a stop with reason rejected", err)
					}
					for _, part := range []string{`"k/poison"`, `"t"`, "partition 0", "errors.skip", "errors.rejected: dead_letter"} {
						if !strings.Contains(cdc.Explain(err), part) {
							t.Errorf("the error %q does not name %s", err, part)
						}
					}
				}
				s.answered(t, map[cdc.Policy]uint64{cdc.PolicyStop: 10, cdc.PolicyDrop: 20}[policy])
				if got := values(read(t, c.ListenAddrs(), "t", len(want))); !slices.Equal(got, want) {
					t.Errorf("published %v, want %v", got, want)
				}
				if n := metric(t, s.reg, "cdc_relay_events_dropped_total"); n != dropped {
					t.Errorf("%v events counted as dropped, want %v", n, dropped)
				}
			})
		}
	}
}

// reject makes the broker refuse batches that hold "poison", naming the record or not, once the first
// batch has waited for the others.
func reject(t *testing.T, c *kfake.Cluster, named bool) {
	t.Helper()
	holdFirst(c)
	if !named {
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: kerr.InvalidRecord, Count: -1, When: holds("poison")})
		return
	}
	refuseNaming(c, "poison", kerr.InvalidRecord.Code, func(b sent) int32 {
		before, _, _ := bytes.Cut(b.records, []byte("poison"))
		return int32(bytes.Count(before, []byte("ce_id")))
	})
}

// holdFirst fails the first attempts, so that what is sent meanwhile shares a batch.
func holdFirst(c *kfake.Cluster) {
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: kerr.NotEnoughReplicas, Count: 3})
}

// After a rejection that stops the run, earlier messages are resolved and no later ones are sent, in any partition.
func TestStopResolvesEarlierMessages(t *testing.T) {
	c := newCluster(t, 1, 1, kfake.SeedTopics(1, "u"))
	w := watch(c)
	slow := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "u", Err: kerr.NotEnoughReplicas, Count: -1})
	refusing := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: kerr.InvalidRecord, Count: -1})
	s := open(t, options(c))
	s.send(t, to("u", msg("k", "before"))...)
	eventually(t, "the first attempt", func() bool { return slow.Hits() > 0 })
	s.send(t, to("u", msg("k", "before, too"))...)
	s.send(t, append(to("u", msg("k", "later")), msg("k", "poison"))...)
	s.send(t, to("u", msg("k", "last"))...)
	eventually(t, "the refusal", func() bool { return refusing.Hits() > 0 })
	eventually(t, "more attempts", func() bool { return slow.Hits() > 5 })
	s.mu.Lock()
	told := s.err
	s.mu.Unlock()
	if told != nil {
		t.Error("the error is there before earlier messages are resolved")
	}
	slow.Remove()
	if err := s.failed(t); !strings.Contains(cdc.Explain(err), "k/poison") {
		t.Error(err)
	}
	s.answered(t, 2)
	for _, b := range w.list() {
		if bytes.Contains(b.records, []byte("la")) {
			t.Errorf("something later was begun: %q", b.records)
		}
	}
}
