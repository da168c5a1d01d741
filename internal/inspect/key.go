package inspect

import (
	"context"
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

const (
	// keyFor is how far a search for a key goes back in Kafka: no index leads to a key.
	keyFor = 15 * time.Minute
	// keyMost is how many events it finds.
	keyMost = 100
)

// Moment is one on the way of an event.
type Moment struct {
	At time.Time `json:"at,omitzero"`
	// What is committed, published or dead_letter.
	What string `json:"what"`
	ID   string `json:"id,omitempty"`
	Text string `json:"text,omitempty"`
}

// timeline is the way of the event, in the order in which it passes.
func (f *Found) timeline() []Moment {
	list := []Moment{}
	for _, r := range f.Rows {
		list = append(list, Moment{At: r.Created, What: "committed", Text: r.Table})
	}
	for _, r := range f.Records {
		list = append(list, Moment{At: r.Time, What: "published", Text: r.place()})
	}
	for i := range f.Letters {
		list = append(list, letterMoment(&f.Letters[i]))
	}
	slices.SortStableFunc(list, func(a, b Moment) int { return a.At.Compare(b.At) })
	return list
}

func letterMoment(l *deadletter.Listed) Moment {
	return Moment{At: l.Time, What: "dead_letter", ID: display.Cut(l.ID, maxShown), Text: display.Cut(l.Reason+display.Suffix(": ", l.Error), maxShown)}
}

// maxShown is how many characters of a text of others are shown.
const maxShown = 300

// FoundKey is what is known of the events of a key.
type FoundKey struct {
	Key      string    `json:"key"`
	Timeline []Moment  `json:"timeline"`
	Searched []string  `json:"searched"`
	Since    time.Time `json:"since"`
	// More says that there are more than shown.
	More bool `json:"more,omitempty"`
}

// SearchKey returns events with a record key, of the last minutes and not necessarily the last ones, and dead letters of that key. It reads
// only.
func SearchKey(ctx context.Context, c *config.Config, key string) (*FoundKey, error) {
	f := &FoundKey{Key: key, Timeline: []Moment{}, Since: time.Now().Add(-keyFor).UTC()}
	if c.DeadLetter.On() {
		letters, _, err := app.LetterDesk(c).List(ctx, deadletter.Filter{Is: map[string]string{"key": key}})
		if err != nil {
			return nil, err
		}
		for i := range letters[:min(len(letters), keyMost/2)] {
			f.Timeline = append(f.Timeline, letterMoment(&letters[i]))
		}
		f.More = len(letters) > keyMost/2
	}
	printer := newPrinter(c)
	routes := func(topic string) bool { return routed(c, topic) }
	searched, err := readTopics(ctx, c, f.Since, routes, func(topic string, r *kafka.Record) error {
		switch {
		case string(r.Key) != f.Key:
			return nil
		case len(f.Timeline) >= keyMost:
			f.More = true
			return errEnough
		}
		rec := printer.record(&cdc.Message{Headers: r.Headers})
		found := FoundRecord{Topic: topic, Partition: r.Partition, Offset: r.Offset}
		f.Timeline = append(f.Timeline, Moment{At: r.Time.UTC(), What: "published", ID: display.Cut(rec.About.ID, maxShown), Text: found.place()})
		return nil
	})
	if err != nil {
		return nil, err
	}
	f.Searched = searched
	slices.SortStableFunc(f.Timeline, func(a, b Moment) int { return a.At.Compare(b.At) })
	return f, nil
}
