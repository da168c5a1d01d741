package dlq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// Desk is where commands look at letters, and ask the leader to resolve some. It changes nothing itself.
type Desk struct {
	Kafka kafka.Options
	// Topic holds the letters, Index says which there are.
	Topic, Index string
	// Write writes a record into the index.
	Write func(ctx context.Context, key, value []byte) error
}

// Listed is a letter as commands show it.
type Listed struct {
	// Letter is its ID.
	Letter string `json:"letter"`

	*deadletter.Entry
}

// Filter selects letters: all that is set must be right.
type Filter struct {
	// IDs are those of letters, or of events.
	IDs                                             []string
	Key, Type, AggregateType, Topic, Tenant, Reason string
	// From and To limit when an event became a letter, To exclusively.
	From, To time.Time
}

// Empty reports whether the filter takes every letter.
func (f *Filter) Empty() bool {
	return len(f.IDs) == 0 && f.Key+f.Type+f.AggregateType+f.Topic+f.Tenant+f.Reason == "" && f.From.IsZero() && f.To.IsZero()
}

func (f *Filter) takes(l *Listed) bool {
	same := func(wanted, is string) bool { return wanted == "" || wanted == is }
	return (len(f.IDs) == 0 || slices.Contains(f.IDs, l.Letter) || slices.Contains(f.IDs, l.ID)) &&
		same(deadletter.KeyText([]byte(f.Key)), l.Key) && same(f.Type, l.Type) && same(f.AggregateType, l.AggregateType) &&
		same(f.Topic, l.Topic) && same(f.Tenant, l.Tenant) && same(f.Reason, l.Reason) &&
		(f.From.IsZero() || !l.Time.Before(f.From)) && (f.To.IsZero() || l.Time.Before(f.To))
}

// List returns the letters that the filter takes, in their order, and the offset behind what it has read.
func (d *Desk) List(ctx context.Context, f Filter) ([]Listed, int64, error) {
	client, err := kafka.NewClient(d.Kafka)
	if err != nil {
		return nil, 0, err
	}
	defer client.Close()
	records, end := deadletter.NewRecords(), int64(0)
	err = client.Read(ctx, d.Index, 0, kafka.Oldest, kafka.Committed, func(r *kafka.Record) error {
		end = r.Offset + 1
		return records.Add(string(r.Key), r.Value)
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read the index of dead letters: %w", err)
	}
	var list []Listed
	for id, e := range records.Entries {
		if l := (Listed{id, e}); e.Done == "" && f.takes(&l) {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b Listed) int { return a.Order.Compare(b.Order) })
	return list, end, nil
}

// errFound ends a scan.
var errFound = errors.New("found")

// Show returns a letter's record.
func (d *Desk) Show(ctx context.Context, l *Listed) (*deadletter.Letter, error) {
	client, err := kafka.NewClient(d.Kafka)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	from, err := client.OffsetAt(ctx, d.Topic, l.Partition, l.Time.Add(-clockSkew))
	if err != nil {
		return nil, err
	}
	var found *deadletter.Letter
	err = client.Read(ctx, d.Topic, l.Partition, from, kafka.Committed, func(r *kafka.Record) error {
		if string(r.Key) != l.Letter || r.Value == nil {
			return nil
		}
		if found, err = deadletter.Decode(r.Value, r.Headers); err != nil {
			return err
		}
		return errFound
	})
	switch {
	case found != nil:
		found.Entry = *l.Entry
		return found, nil
	case err == nil:
		err = cdc.Fixable("drop it with `cdc-relay dlq drop`, and publish the event again with `cdc-relay replay`",
			"letter %s is in the index and not in topic %q: its record was deleted", l.Letter, d.Topic)
	}
	return nil, err
}

// The times of an ask.
const (
	// askAgain is how often it is sent: another relay may lead by now.
	askAgain = 5 * time.Second
	// askPatience is how long it waits for a leader.
	askPatience = 15 * time.Second
)

// Ask asks the leader to resolve letters, and waits until it has. It calls progress with each answer. The ask is taken back when it
// returns.
func (d *Desk) Ask(ctx context.Context, do string, letters []string, from int64, progress func(*deadletter.Ask)) (*deadletter.Ask, error) {
	id := uuid.NewString()
	key, ask := deadletter.AskKey(id), &deadletter.Ask{Do: do, Letters: letters}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askPatience)
		defer cancel()
		_ = d.Write(ctx, key, nil) // a leader that starts later removes what is left
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan *deadletter.Ask)
	go d.follow(ctx, string(key), from, answers)
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for heard := time.Now(); ; {
		if err := d.Write(ctx, key, ask.Encode()); err != nil {
			return nil, err
		}
		for waiting := true; waiting; {
			select {
			case a := <-answers:
				heard = time.Now()
				progress(a)
				if a.State == deadletter.Ended {
					return a, nil
				}
			case <-again.C:
				waiting = false
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if time.Since(heard) > askPatience {
			return nil, cdc.Fixable("start the relay, with this configuration, and look at its log", "no relay has answered within %s: none leads", askPatience)
		}
	}
}

// follow passes on what is answered to an ask.
func (d *Desk) follow(ctx context.Context, key string, from int64, answers chan<- *deadletter.Ask) {
	for ctx.Err() == nil {
		client, err := kafka.NewClient(d.Kafka)
		if err != nil {
			return
		}
		_ = client.Follow(ctx, d.Index, 0, from, func(r *kafka.Record) error {
			from = r.Offset + 1
			a := new(deadletter.Ask)
			if string(r.Key) == key && r.Value != nil {
				_ = json.Unmarshal(r.Value, a) // what is no answer is left out
			}
			if a.State == "" {
				return nil
			}
			select {
			case answers <- a:
			case <-ctx.Done():
			}
			return nil
		})
		client.Close()
		select {
		case <-time.After(interval / 5):
		case <-ctx.Done():
		}
	}
}

// Counts returns how many letters there are of each reason.
func Counts(list []Listed) map[string]int {
	counts := map[string]int{}
	for i := range list {
		counts[list[i].Reason]++
	}
	return counts
}

// Reasons are those of counts, the most frequent first.
func Reasons(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
}
