package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/inspect"
	"github.com/cdc-relay/cdc-relay/internal/provision"
)

// Limits of what the page shows at once, and of one request to resolve letters.
const (
	pageLetters = 50
	pageGroups  = 100
	pageReasons = 100
	pageText    = 500 // characters of a text of others
	// resolveFor is for how long new letters are begun; the caller asks for the rest.
	resolveFor, resolveChunk = 8 * time.Second, 500
)

// pageDesk does what the commands do, with the relay's own configuration and rights.
func pageDesk(c *config.Config, listen *tail) admin.Desk {
	desk := admin.Desk{
		Event: func(ctx context.Context, id, key string) (any, error) {
			if key != "" {
				return inspect.SearchKey(ctx, c, key)
			}
			return inspect.Search(ctx, c, "", id)
		},
		Check: func(ctx context.Context) (any, error) { return provision.Check(ctx, c) },
		Topic: func(ctx context.Context, topic string) (any, error) { return topicInKafka(ctx, c, topic) },
		Tail:  listen.last,
		Config: func() (any, error) {
			var text strings.Builder
			err := c.Show(&text)
			return map[string]string{"text": text.String()}, err
		},
	}
	if c.DeadLetter.On() {
		d := &letterDesk{app.LetterDesk(c)}
		desk.Letters = func(ctx context.Context, after string, f admin.LetterFilter) (any, error) {
			all, _, err := d.List(ctx, deadletter.Filter{})
			return pageOf(all, after, &f, time.Now()), err
		}
		desk.Letter = func(ctx context.Context, id string) (any, error) { return d.letter(ctx, id) }
		desk.Resolve = func(ctx context.Context, q admin.Resolve) (any, error) { return d.resolve(ctx, q) }
	}
	return desk
}

// topicPartition is a partition as Kafka has it.
type topicPartition struct {
	ID       int32   `json:"id"`
	Leader   int32   `json:"leader"` // -1: none
	Replicas []int32 `json:"replicas"`
	InSync   []int32 `json:"in_sync"`
}

func topicInKafka(ctx context.Context, c *config.Config, topic string) (any, error) {
	client := app.KafkaClient(c)
	defer client.Close()
	md, err := client.Metadata(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	list := []topicPartition{}
	for _, tp := range md.Topics {
		if tp.Err != 0 {
			return nil, cdc.Fixable("create it, or grant DESCRIBE", "topic %q cannot be seen (%w)", display.Cut(topic, pageText), tp.Err)
		}
		for _, p := range tp.Partitions {
			list = append(list, topicPartition{p.ID, p.Leader, p.Replicas, p.Isr})
		}
	}
	slices.SortFunc(list, func(a, b topicPartition) int { return cmp.Compare(a.ID, b.ID) })
	limits, err := client.TopicLimits(ctx, topic)
	return map[string]any{"topic": topic, "partitions": list, "limits": limits}, err
}

// letterDesk is the page's look at dead letters.
type letterDesk struct{ *deadletter.Desk }

// letterPage is one page of dead letters, without their payloads.
type letterPage struct {
	Letters []deadletter.Listed `json:"letters"`
	// Next is what the next page is after; absent on the last one.
	Next string `json:"next,omitempty"`
	// Last is the last letter that the filter takes: who resolves those that are counted here names it.
	Last string `json:"last,omitempty"`
	// Total is how many the filter takes, of All.
	Total int `json:"total"`
	All   int `json:"all"`
	// Facets count by reason, topic, type and age the letters that the rest of the filter takes.
	Facets map[string]map[string]int `json:"facets"`
	Groups []letterGroup             `json:"groups"`
}

// letterGroup are letters with one cause.
type letterGroup struct {
	Cause  string    `json:"cause"`
	Reason string    `json:"reason"`
	Count  int       `json:"count"`
	Keys   int       `json:"keys"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`

	keys map[string]bool
}

// facets are what letters are filtered by.
func facets(now time.Time) map[string]func(*deadletter.Listed) string {
	return map[string]func(*deadletter.Listed) string{
		"reason": deadletter.ByReason,
		"topic":  func(l *deadletter.Listed) string { return display.Cut(l.Topic, pageText) },
		"type":   func(l *deadletter.Listed) string { return display.Cut(l.Type, pageText) },
		"cause":  causeOf,
		"key":    func(l *deadletter.Listed) string { return display.Cut(l.Key, pageText) },
		"age": func(l *deadletter.Listed) string {
			switch age := now.Sub(l.Time); {
			case age < time.Hour:
				return "1h"
			case age < 24*time.Hour:
				return "24h"
			case age < 7*24*time.Hour:
				return "7d"
			}
			return "older"
		},
	}
}

func causeOf(l *deadletter.Listed) string { return display.Cut(deadletter.ByCause(l), pageText) }

// taken returns the letters that a filter takes; but leaves one facet out of it.
func taken(list []deadletter.Listed, f *admin.LetterFilter, but string, now time.Time) (out []*deadletter.Listed) {
	wanted := map[string]string{"reason": f.Reason, "topic": f.Topic, "type": f.Type, "age": f.Age, "cause": f.Cause, "key": f.Key}
	of := facets(now)
	for i := range list {
		takes := true
		for facet, want := range wanted {
			takes = takes && (want == "" || facet == but || of[facet](&list[i]) == want)
		}
		if takes {
			out = append(out, &list[i])
		}
	}
	return out
}

func pageOf(all []deadletter.Listed, after string, f *admin.LetterFilter, now time.Time) *letterPage {
	matching := taken(all, f, "", now)
	p := &letterPage{Letters: []deadletter.Listed{}, Total: len(matching), All: len(all), Facets: map[string]map[string]int{}, Groups: groupsOf(matching)}
	of := facets(now)
	for _, facet := range []string{"reason", "topic", "type", "age"} {
		counts := map[string]int{}
		for _, l := range taken(all, f, facet, now) {
			counts[of[facet](l)]++
		}
		p.Facets[facet] = counts
	}
	if len(matching) > 0 {
		p.Last = cursor(matching[len(matching)-1])
	}
	rest := behind(matching, after)
	for _, l := range rest[:min(pageLetters, len(rest))] {
		p.Letters = append(p.Letters, shownListed(l))
		p.Next = cursor(l)
	}
	if len(rest) <= pageLetters {
		p.Next = ""
	}
	return p
}

// cursor says where a letter stands: another one that is resolved meanwhile does not matter.
func cursor(l *deadletter.Listed) string {
	return fmt.Sprintf("%d-%d-%d", l.Order.Epoch, l.Order.Seq, l.Order.Row)
}

// behind are the letters of a list behind a cursor; all for "".
func behind(list []*deadletter.Listed, after string) []*deadletter.Listed {
	return list[upTo(list, after):]
}

// upTo is how many letters of a list a cursor is at or behind.
func upTo(list []*deadletter.Listed, at string) int {
	var o deadletter.Order
	if _, err := fmt.Sscanf(at, "%d-%d-%d", &o.Epoch, &o.Seq, &o.Row); err != nil {
		return 0
	}
	i, _ := slices.BinarySearchFunc(list, o, func(l *deadletter.Listed, o deadletter.Order) int { return cmp.Or(l.Order.Compare(o), -1) })
	return i
}

// shownListed is a letter for people. Its own ID stays as it is: a request names it.
func shownListed(l *deadletter.Listed) deadletter.Listed {
	e := *l.Entry
	for _, text := range []*string{&e.Key, &e.ID, &e.Type, &e.AggregateType, &e.Tenant, &e.Topic, &e.Table, &e.Error} {
		*text = display.Cut(*text, pageText)
	}
	return deadletter.Listed{Letter: l.Letter, Entry: &e}
}

// groupsOf are the largest first.
func groupsOf(list []*deadletter.Listed) []letterGroup {
	by := map[string]*letterGroup{}
	for _, l := range list {
		cause := causeOf(l)
		g := by[cause]
		if g == nil {
			g = &letterGroup{Cause: cause, Reason: l.Reason, First: l.Time, keys: map[string]bool{}}
			by[cause] = g
		}
		g.Count++
		g.keys[l.HoldName()] = true
		g.Keys, g.Last = len(g.keys), l.Time
	}
	groups := []letterGroup{}
	for _, g := range slices.SortedFunc(maps.Values(by), func(a, b *letterGroup) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Cause, b.Cause)) }) {
		if len(groups) < pageGroups {
			groups = append(groups, *g)
		}
	}
	return groups
}

func errResolved(id string) error {
	return cdc.Fixable("load the list again", "%w: dead letter %s was resolved meanwhile, by another caller or by the relay", admin.ErrChanged, display.Cut(id, pageText))
}

// shownDetail is a letter with its record, without the payload.
type shownDetail struct {
	deadletter.Listed

	Headers map[string]string `json:"headers"`
	// Behind is how many letters wait behind this one.
	Behind int `json:"behind"`
}

func (d *letterDesk) letter(ctx context.Context, id string) (*shownDetail, error) {
	all, _, err := d.List(ctx, deadletter.Filter{})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(l deadletter.Listed) bool { return l.Letter == id })
	if i < 0 {
		return nil, errResolved(id)
	}
	record, err := d.Show(ctx, &all[i])
	if err != nil {
		return nil, err
	}
	s := &shownDetail{Listed: shownListed(&all[i]), Headers: map[string]string{}}
	for _, h := range record.Headers {
		s.Headers[display.Cut(string(h.Key), pageText)] = display.Cut(string(h.Value), pageText)
	}
	for _, l := range all[i+1:] {
		if all[i].Key != "" && l.HoldName() == all[i].HoldName() {
			s.Behind++
		}
	}
	return s, nil
}

// resolvedLetters is what became of letters. Of those that failed it has the reasons of the first ones.
type resolvedLetters struct {
	Done        int            `json:"done"`
	Failed      []failedLetter `json:"failed"`
	FailedTotal int            `json:"failed_total,omitempty"`
	// Skipped were dropped in place of published, because errors.skip lists their events; Before were resolved before.
	Skipped int `json:"skipped,omitempty"`
	Before  int `json:"before,omitempty"`
	// Left are those behind After, for which there was no time.
	Left  int    `json:"left,omitempty"`
	After string `json:"after,omitempty"`
	// Error is why it went no further.
	Error string `json:"error,omitempty"`
}

// Summary implements [admin.Summarized].
func (r *resolvedLetters) Summary() any {
	s := *r
	s.Failed = nil
	return &s
}

type failedLetter struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// resolve asks the relay that leads, which may be another one.
func (d *letterDesk) resolve(ctx context.Context, q admin.Resolve) (*resolvedLetters, error) {
	all, end, err := d.List(ctx, deadletter.Filter{})
	if err != nil {
		return nil, err
	}
	var list []*deadletter.Listed
	if q.Filter != nil {
		list = taken(all, q.Filter, "", time.Now())
		list = behind(list[:upTo(list, q.Until)], q.After) // not what came since somebody looked
		if len(list) != q.Count {
			return nil, cdc.Fixable("load the list again", "%w: the filter takes %s now, not %d", admin.ErrChanged, display.Plural(len(list), "dead letter"), q.Count)
		}
	} else if i := slices.IndexFunc(all, func(l deadletter.Listed) bool { return l.Letter == q.ID }); i >= 0 {
		list = append(list, &all[i])
	} else {
		return nil, errResolved(q.ID)
	}
	result := &resolvedLetters{Failed: []failedLetter{}}
	asked := list
	for began := time.Now(); len(list) > 0 && (time.Since(began) < resolveFor || result.After == ""); {
		chunk := list[:min(resolveChunk, len(list))]
		if err := d.resolveChunk(ctx, q.Do, chunk, end, result); err != nil {
			if result.After == "" {
				return nil, err
			}
			result.Error = cdc.Explain(err)
			break
		}
		result.After, list = cursor(chunk[len(chunk)-1]), list[len(chunk):]
	}
	if result.Left = len(list); result.Left == 0 {
		result.After = ""
	}
	if result.FailedTotal > 0 {
		d.explain(ctx, asked, result)
	}
	if q.Filter == nil && result.Before > 0 {
		return nil, errResolved(q.ID)
	}
	if q.Filter == nil && result.Skipped > 0 {
		return nil, skippedError(all, result.Skipped)
	}
	return result, nil
}

func (d *letterDesk) resolveChunk(ctx context.Context, do string, chunk []*deadletter.Listed, end int64, sum *resolvedLetters) error {
	asked := make([]deadletter.Listed, len(chunk))
	for i, l := range chunk {
		asked[i] = *l
	}
	why := ""
	result, err := d.Ask(ctx, do, asked, end, func(reason string) { why = reason }, func(string) {})
	switch {
	case err != nil && why != "":
		return cdc.Fixable("try again when that has passed", "the relay waits: %s", why)
	case err != nil:
		return err
	}
	sum.Done, sum.FailedTotal, sum.Skipped, sum.Before = sum.Done+result.Done, sum.FailedTotal+result.Failed, sum.Skipped+result.Skipped, sum.Before+result.Before
	return nil
}

// explain gives the reasons of now for those that were asked for and are still there.
func (d *letterDesk) explain(ctx context.Context, asked []*deadletter.Listed, sum *resolvedLetters) {
	all, _, err := d.List(ctx, deadletter.Filter{})
	if err != nil {
		sum.Error = cmp.Or(sum.Error, cdc.Explain(err))
		return
	}
	still := map[string]*deadletter.Listed{}
	for i := range all {
		still[all[i].Letter] = &all[i]
	}
	for _, l := range asked[:len(asked)-sum.Left] {
		if now := still[l.Letter]; now != nil && len(sum.Failed) < pageReasons {
			sum.Failed = append(sum.Failed, failedLetter{l.Letter, causeOf(now)})
		}
	}
}
