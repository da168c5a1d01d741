package deadletter

import (
	"cmp"
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
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// Desk is where commands look at letters, and ask the leader to resolve some. It changes nothing itself.
type Desk struct {
	Kafka kafka.Options
	// Topic holds the letters, Index says which there are.
	Topic, Index string
	// Open connects what writes into the index; the caller closes it.
	Open func(ctx context.Context) (write Write, closeAll func(), err error)
}

// Write writes a record into the index, and returns when it is durable.
type Write func(ctx context.Context, key, value []byte) error

// Listed is a letter as commands show it.
type Listed struct {
	// Letter is its ID.
	Letter string `json:"letter"`

	*Entry
}

// Facets are what letters are selected and counted by.
func Facets() map[string]func(*Listed) string {
	return map[string]func(*Listed) string{
		"key":            func(l *Listed) string { return l.Key },
		"type":           func(l *Listed) string { return l.Type },
		"aggregate-type": func(l *Listed) string { return l.AggregateType },
		"tenant":         func(l *Listed) string { return l.Tenant },
		"topic":          func(l *Listed) string { return l.Topic },
		"reason":         func(l *Listed) string { return l.Reason },
		"cause":          cause,
		"age":            age,
	}
}

// cause is the same for letters that have the same thing wrong with them, whatever their IDs and keys.
func cause(l *Listed) string {
	text := strings.Replace(l.Error, "(aggregate "+l.AggregateType+" "+l.Key+")", "(aggregate)", 1)
	if l.ID != "" {
		text = strings.ReplaceAll(text, l.ID, "ID")
	}
	return l.Reason + ": " + text
}

func age(l *Listed) string {
	switch age := time.Since(l.Time); {
	case age < time.Hour:
		return "1h"
	case age < 24*time.Hour:
		return "24h"
	case age < 7*24*time.Hour:
		return "7d"
	}
	return "older"
}

// Filter selects letters: all that is set must be right.
type Filter struct {
	// IDs are those of letters, or of events.
	IDs []string
	// Is has what some of [Facets] are.
	Is map[string]string
	// From and To limit when an event became a letter, To exclusively.
	From, To time.Time
}

// Empty reports whether the filter takes every letter.
func (f *Filter) Empty() bool {
	return len(f.IDs)+len(f.Is) == 0 && f.From.IsZero() && f.To.IsZero()
}

func (f *Filter) takes(l *Listed) bool {
	of := Facets()
	for facet, is := range f.Is {
		if has := of[facet](l); has != is && has != cdc.KeyText([]byte(is)) { // as an entry has a long key
			return false
		}
	}
	return (len(f.IDs) == 0 || slices.Contains(f.IDs, l.Letter) || slices.Contains(f.IDs, l.ID)) &&
		(f.From.IsZero() || !l.Time.Before(f.From)) && (f.To.IsZero() || l.Time.Before(f.To))
}

// List returns the letters that the filter takes, in their order, and the offset behind what it has read of the index.
func (d *Desk) List(ctx context.Context, f Filter) (list []Listed, end int64, err error) {
	records, end, err := ReadIndex(ctx, d.Kafka, d.Index, kafka.Committed)
	if err != nil {
		return nil, 0, err
	}
	for id, e := range records.Entries {
		if l := (Listed{id, e}); e.Done == "" && f.takes(&l) {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b Listed) int { return a.Order.Compare(b.Order) })
	return list, end, nil
}

// ReadIndex reads an index to before an offset, or to [kafka.Committed]. end is the offset behind the last record.
func ReadIndex(ctx context.Context, opts kafka.Options, index string, to int64) (records *Records, end int64, err error) {
	client := kafka.NewClient(opts)
	defer client.Close()
	records = NewRecords()
	err = client.Read(ctx, index, 0, kafka.Oldest, to, func(r *kafka.Record) error {
		end = r.Offset + 1
		return records.Add(string(r.Key), r.Value)
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read the index of dead letters: %w", err)
	}
	return records, end, nil
}

// Whole is that of the index's [Records].
func (d *Desk) Whole(ctx context.Context) error {
	records, _, err := ReadIndex(ctx, d.Kafka, d.Index, kafka.Committed)
	if err != nil {
		return err
	}
	return records.Whole()
}

// Quoted quotes an ID for a shell, if it has to be.
func Quoted(id string) string {
	if strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.:@/,") == "" {
		return id
	}
	return "'" + strings.ReplaceAll(id, "'", `'\''`) + "'"
}

// errFound ends a scan.
var errFound = errors.New("found")

// Show returns a letter's record.
func (d *Desk) Show(ctx context.Context, l *Listed) (*Letter, error) {
	client := kafka.NewClient(d.Kafka)
	defer client.Close()
	from, err := client.OffsetAt(ctx, d.Topic, l.Partition, l.Time.Add(-clockSkew))
	if err != nil {
		return nil, err
	}
	var found *Letter
	err = client.Read(ctx, d.Topic, l.Partition, from, kafka.Committed, func(r *kafka.Record) error {
		if string(r.Key) != l.Letter || r.Value == nil {
			return nil
		}
		if found, err = Decode(r.Value, r.Headers); err != nil || cdc.OfTable(l.Place) { // a repair may have written it again behind
			return err
		}
		return errFound
	})
	switch {
	case found != nil && (err == nil || errors.Is(err, errFound)):
		found.Entry = *l.Entry
		return found, nil
	case err == nil:
		err = d.recordDeleted(l)
	}
	return nil, err
}

func (d *Desk) recordDeleted(l *Listed) error {
	drop := "drop the dead letter with `cdc-relay dlq drop " + Quoted(l.Letter) + "`"
	fix := "publish the event with `cdc-relay replay --id " + Quoted(l.ID) + "`, and when that has published it, " + drop
	if l.ID == "" {
		fix = "insert the event again, with an ID, if it is needed, and " + drop
	}
	return cdc.Fixable(fix, "dead letter %s is in the index and not in topic %q: its record was deleted", l.Letter, d.Topic)
}

// The times of an ask.
const (
	// askAgain is how often it is sent: another relay may lead by now.
	askAgain = 5 * time.Second
	// askPatience is how long it waits for a leader.
	askPatience = 15 * time.Second
)

// Result counts what became of letters that the leader was asked to resolve.
type Result struct {
	// Done were resolved as asked. Skipped were to be published, and were dropped because errors.skip lists their events. Failed
	// cannot be published.
	Done    int `json:"done"`
	Skipped int `json:"skipped,omitempty"`
	Failed  int `json:"failed_total,omitempty"`
	// Before were resolved before, by another command or by the relay.
	Before int `json:"before,omitempty"`
	// Asked is false if the index could not be written to: nothing was asked.
	Asked bool `json:"-"`
}

// Ask asks the leader to resolve letters of a list, and waits until it has. It calls waits with each new reason for which the leader waits.
// What was asked is withdrawn when it returns: after an error the leader ends only what it has begun.
func (d *Desk) Ask(ctx context.Context, do string, letters []Listed, end int64, waits func(text string)) (Result, error) {
	write, closeAll, err := d.Open(ctx)
	if err != nil {
		return Result{}, err
	}
	defer closeAll()
	ids := make([]string, len(letters))
	for i := range letters {
		ids[i] = letters[i].Letter
	}
	a := asking{write: write, open: map[string]*Ask{}, said: map[string]bool{"": true}, waits: waits, heard: time.Now()}
	for _, ask := range NewAsks(do, ids) {
		key := string(AskKey(uuid.NewString()))
		a.keys, a.open[key] = append(a.keys, key), ask
	}
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer)
	go d.follow(following, a.keys, end, answers)
	err = a.wait(ctx, answers)
	if back := a.withdraw(context.WithoutCancel(ctx)); err != nil && back != nil {
		err = cdc.Fixable("start the command again, and let it end, as soon as Kafka answers", "%w; the request could not be withdrawn, so the relay may still do it: %w", err, back)
	}
	a.result.Asked = true
	a.result.Before = len(letters) - a.result.Done - a.result.Skipped - a.result.Failed
	return a.result, err
}

// asking is what one command asks for.
type asking struct {
	write Write
	keys  []string        // in the order of the letters: the first of a held key have to be published first
	open  map[string]*Ask // those without an answer, by key
	// said are the reasons that waits was called with.
	said  map[string]bool
	waits func(text string)
	heard time.Time // when a relay was heard last

	result Result
}

// wait sends what is open, again and again, until everything is answered.
func (a *asking) wait(ctx context.Context, answers <-chan answer) error {
	again := time.NewTicker(askAgain)
	defer again.Stop()
	if err := a.send(ctx); err != nil {
		return err
	}
	for len(a.open) > 0 {
		select {
		case answer := <-answers:
			if answer.Refused != "" {
				return cdc.Fixable("use the command of the relay's version", "the relay refuses the request: %s", answer.Refused)
			}
			a.hear(answer)
		case <-again.C:
			if time.Since(a.heard) > askPatience {
				return cdc.Fixable("start the relay, with this configuration; if it runs, `cdc-relay status` says what it waits for",
					"no relay has answered within %s: none leads, or it waits for Kafka; the request is withdrawn, but what the relay has begun it ends", askPatience)
			}
			if err := a.send(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// send asks for what has no answer.
func (a *asking) send(ctx context.Context) error {
	for _, key := range a.keys {
		if ask := a.open[key]; ask != nil {
			if err := a.write(ctx, []byte(key), ask.Encode()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *asking) hear(got answer) {
	a.heard = time.Now()
	if !a.said[got.Waits] {
		a.said[got.Waits] = true
		a.waits(got.Waits)
	}
	if ask := a.open[got.key]; ask != nil && len(got.Letters) > 0 {
		ask.Again, ask.Letters, ask.Done = true, got.Letters, got.Done
	}
	if a.open[got.key] != nil && got.State == Ended {
		a.result.Done += got.Done
		a.result.Skipped += got.Skipped
		a.result.Failed += got.Failed
		delete(a.open, got.key)
	}
}

// withdraw removes what was asked. A leader that starts later removes what is left.
func (a *asking) withdraw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	for _, key := range a.keys {
		if err := a.write(ctx, []byte(key), nil); err != nil {
			return err
		}
	}
	return nil
}

// answer is one to the ask with a key; without a key, a relay leads and works.
type answer struct {
	Ask

	key string
}

// follow passes on what is answered.
func (d *Desk) follow(ctx context.Context, keys []string, from int64, answers chan<- answer) {
	for ctx.Err() == nil {
		client := kafka.NewClient(d.Kafka)
		_ = client.Follow(ctx, d.Index, 0, from, func(r *kafka.Record) error {
			from = r.Offset + 1
			var a answer
			switch key := string(r.Key); {
			case IsEntry(key):
			case r.Value != nil && slices.Contains(keys, key):
				a.key = key
				if err := json.Unmarshal(r.Value, &a.Ask); err != nil || a.State == "" { // no answer
					return nil //nolint:nilerr // it may be a newer relay's
				}
			default:
				return nil
			}
			select {
			case answers <- a:
			case <-ctx.Done():
			}
			return nil
		})
		client.Close()
		_ = cdc.Sleep(ctx, interval/5)
	}
}

// Counts returns how many letters there are of each group.
func Counts(list []Listed, group func(*Listed) string) map[string]int {
	counts := map[string]int{}
	for i := range list {
		counts[group(&list[i])]++
	}
	return counts
}

// Groups are those of counts, the largest first.
func Groups(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
}
