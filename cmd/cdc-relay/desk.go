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
	// resolveChunk is how many letters one request resolves; the caller asks for the rest.
	resolveChunk = 500
)

// pageDesk does what the commands do, with the relay's own configuration and rights.
func pageDesk(c *config.Config, listen *tail) admin.Desk {
	desk := admin.Desk{
		"event": func(ctx context.Context, q admin.Request) (any, error) {
			if q.Key != "" {
				return inspect.SearchKey(ctx, c, q.Key)
			}
			return inspect.Search(ctx, c, "", q.ID)
		},
		"check": func(ctx context.Context, _ admin.Request) (any, error) { return provision.Check(ctx, c) },
		"tail":  func(_ context.Context, q admin.Request) (any, error) { return listen.last(q.Topic), nil },
		"config": func(context.Context, admin.Request) (any, error) {
			var text strings.Builder
			err := c.Show(&text)
			return map[string]string{"text": text.String()}, err
		},
	}
	if c.DeadLetter.On() {
		d := &letterDesk{app.LetterDesk(c)}
		desk["letters"], desk["letter"], desk["resolve"] = d.page, d.letter, d.resolve
	}
	return desk
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

// asShown is a facet as the page shows and sends it. One that there is not is "".
func asShown(facet string) func(*deadletter.Listed) string {
	of, known := deadletter.Facets()[facet]
	return func(l *deadletter.Listed) string {
		if !known {
			return ""
		}
		return display.Cut(of(l), pageText)
	}
}

// taken returns the letters that a filter takes; but leaves one facet out of it.
func taken(list []deadletter.Listed, filter map[string]string, but string) []deadletter.Listed {
	list = slices.Clone(list)
	for facet, want := range filter {
		if of := asShown(facet); want != "" && facet != but {
			list = slices.DeleteFunc(list, func(l deadletter.Listed) bool { return of(&l) != want })
		}
	}
	return list
}

func (d *letterDesk) page(ctx context.Context, q admin.Request) (any, error) {
	all, _, err := d.List(ctx, deadletter.Filter{})
	return pageOf(all, q.After, q.Filter), err
}

func pageOf(all []deadletter.Listed, after string, filter map[string]string) *letterPage {
	matching := taken(all, filter, "")
	p := &letterPage{Letters: []deadletter.Listed{}, Total: len(matching), All: len(all), Facets: map[string]map[string]int{}, Groups: groupsOf(matching)}
	for _, facet := range []string{"reason", "topic", "type", "age"} {
		p.Facets[facet] = deadletter.Counts(taken(all, filter, facet), asShown(facet))
	}
	if len(matching) > 0 {
		p.Last = cursor(&matching[len(matching)-1])
	}
	rest := matching[upTo(matching, after):]
	if len(rest) > pageLetters {
		rest = rest[:pageLetters]
		p.Next = cursor(&rest[pageLetters-1])
	}
	for i := range rest {
		p.Letters = append(p.Letters, shownListed(&rest[i]))
	}
	return p
}

// cursor says where a letter stands: another one that is resolved meanwhile does not matter.
func cursor(l *deadletter.Listed) string {
	return fmt.Sprintf("%d-%d-%d", l.Order.Epoch, l.Order.Seq, l.Order.Row)
}

// upTo is how many letters of a list a cursor is at or behind; none for "".
func upTo(list []deadletter.Listed, at string) int {
	var o deadletter.Order
	if _, err := fmt.Sscanf(at, "%d-%d-%d", &o.Epoch, &o.Seq, &o.Row); err != nil {
		return 0
	}
	i, _ := slices.BinarySearchFunc(list, o, func(l deadletter.Listed, o deadletter.Order) int { return cmp.Or(l.Order.Compare(o), -1) })
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
func groupsOf(list []deadletter.Listed) []letterGroup {
	by, causeOf := map[string]*letterGroup{}, asShown("cause")
	for _, l := range list {
		cause := causeOf(&l)
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

func (d *letterDesk) letter(ctx context.Context, q admin.Request) (any, error) {
	all, _, err := d.List(ctx, deadletter.Filter{})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(l deadletter.Listed) bool { return l.Letter == q.ID })
	if i < 0 {
		return nil, errResolved(q.ID)
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
	deadletter.Result

	Reasons []failedLetter `json:"failed"`
	// Left are those behind After, which the caller asks for next.
	Left  int    `json:"left,omitempty"`
	After string `json:"after,omitempty"`
	// Error is why there are no reasons.
	Error string `json:"error,omitempty"`
}

// Summary implements [admin.Summarized].
func (r *resolvedLetters) Summary() any {
	s := *r
	s.Reasons = nil
	return &s
}

type failedLetter struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// resolve asks the relay that leads, which may be another one.
func (d *letterDesk) resolve(ctx context.Context, q admin.Request) (any, error) {
	all, end, err := d.List(ctx, deadletter.Filter{})
	if err != nil {
		return nil, err
	}
	var list []deadletter.Listed
	if q.Filter != nil {
		list = taken(all, q.Filter, "")
		list = list[:upTo(list, q.Until)] // not what came since somebody looked
		list = list[upTo(list, q.After):]
		if q.After == "" && len(list) != q.Count { // later there may be fewer: what waited for a letter that is resolved follows by itself
			return nil, cdc.Fixable("load the list again", "%w: the filter takes %s now, not %d", admin.ErrChanged, display.Plural(len(list), "dead letter"), q.Count)
		}
	} else if i := slices.IndexFunc(all, func(l deadletter.Listed) bool { return l.Letter == q.ID }); i >= 0 {
		list = all[i : i+1]
	} else {
		return nil, errResolved(q.ID)
	}
	r := &resolvedLetters{Reasons: []failedLetter{}}
	if r.Left = max(0, len(list)-resolveChunk); r.Left > 0 {
		list = list[:resolveChunk]
		r.After = cursor(&list[resolveChunk-1])
	}
	why := ""
	r.Result, err = d.Ask(ctx, q.Do, list, end, func(reason string) { why = reason })
	switch {
	case err != nil && why != "":
		return nil, cdc.Fixable("try again when that has passed", "the relay waits: %s", why)
	case err != nil:
		return nil, err
	case q.Filter == nil && r.Before > 0:
		return nil, errResolved(q.ID)
	case q.Filter == nil && r.Skipped > 0:
		return nil, skippedError(list, r.Skipped)
	case r.Failed > 0:
		d.explain(ctx, list, r)
	}
	return r, nil
}

// explain gives the reasons of now for those that were asked for and are still there.
func (d *letterDesk) explain(ctx context.Context, asked []deadletter.Listed, r *resolvedLetters) {
	all, _, err := d.List(ctx, deadletter.Filter{})
	if err != nil {
		r.Error = cdc.Explain(err)
		return
	}
	were, causeOf := map[string]bool{}, asShown("cause")
	for _, l := range asked {
		were[l.Letter] = true
	}
	for _, l := range all {
		if were[l.Letter] && len(r.Reasons) < pageReasons {
			r.Reasons = append(r.Reasons, failedLetter{l.Letter, causeOf(&l)})
		}
	}
}
