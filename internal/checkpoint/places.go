package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// Store keeps the checkpoint (C): one of those in package checkpoint.
type Store interface {
	Load(ctx context.Context) (cdc.Checkpoint, bool, error)
	Claim(ctx context.Context, next, loaded cdc.Checkpoint) error
	Save(ctx context.Context, c cdc.Checkpoint) error
	Reset(ctx context.Context) error
	Check(ctx context.Context) []cdc.Finding
	// Location says where the checkpoint is, for display; "" if nowhere.
	Location() string
	Close() error
}

// Publisher commits positions to Kafka. Open fences every other one that was opened with fence, or with one that it replaces.
type Publisher interface {
	Log
	Open(ctx context.Context, fence string, replaced ...string) error
	Kill()
}

// PlacesOptions are of one relay, as it is configured.
type PlacesOptions struct {
	ExactlyOnce bool   // the kind of delivery
	Topic       string // of positions; "" if none is configured
	// TransactionalID is the configured one: a name, "" or [kafka.TransactionalNone].
	TransactionalID string
	// Client and Publisher connect to Kafka. Nothing is open before the first use.
	Client    func() *kafka.Client
	Publisher func() Publisher
}

// inKafka reports whether there may be a position in Kafka that a relay with these options can supersede.
func (o PlacesOptions) inKafka() bool {
	return o.ExactlyOnce || o.Topic != "" && o.TransactionalID != kafka.TransactionalNone
}

// Places are the two places that hold a position beside the slot, for commands and for the start of at-least-once delivery: the
// topic of positions (K), which counts until at-least-once delivery supersedes it, and the store (C). A relay with exactly-once
// delivery uses the two apart.
//
// Only Load and Check may be called by several goroutines.
type Places struct {
	Known // as they were read last

	store Store
	opts  PlacesOptions
	id    cdc.Source // of this relay; zero: not known
}

// NewPlaces returns the places of a relay. Close closes the store.
func NewPlaces(store Store, o PlacesOptions) *Places { return &Places{store: store, opts: o} }

// Close closes the store.
func (p *Places) Close() error { return p.store.Close() }

// Resume returns what a run would start from, or why it would refuse to. It is a [cdc.Resumer].
func (p *Places) Resume(ctx context.Context, id cdc.Source) (cdc.Checkpoint, bool, error) {
	p.id = id
	if p.opts.ExactlyOnce {
		client := p.opts.Client()
		defer client.Close()
		if err := client.VerifyPositionTopic(ctx, p.opts.Topic); err != nil {
			if p.read(ctx) != nil || !p.Committed {
				return cdc.Checkpoint{}, false, err
			}
			return p.Last, true, err // the position is moved to another topic
		}
	}
	if err := p.read(ctx); err != nil {
		return p.Stored, p.Found && !p.ExactlyOnce, err
	}
	return p.Newest(id)
}

// Load returns the position up to which events are published, whatever its source, and also if a run would refuse it.
func (p *Places) Load(ctx context.Context) (cdc.Checkpoint, bool, error) {
	if !p.opts.ExactlyOnce {
		return p.store.Load(ctx)
	}
	p = NewPlaces(p.store, p.opts)
	if err := p.read(ctx); err != nil {
		return cdc.Checkpoint{}, false, err
	}
	id := p.Stored.Source
	if p.Committed {
		id = p.Last.Source
	}
	c, found, err := p.Newest(id)
	if err != nil && errors.Is(err, p.Away) {
		return cdc.Checkpoint{}, false, err
	}
	return c, found, nil
}

// readStored reads the store, and forgets what was read before.
func (p *Places) readStored(ctx context.Context) {
	stored, found, away := p.store.Load(ctx)
	p.remember(stored, found, away)
}

// remember takes what was read from the store, and forgets what was read before.
func (p *Places) remember(stored cdc.Checkpoint, found bool, away error) {
	p.Known = Known{ExactlyOnce: p.opts.ExactlyOnce, Stored: stored, Found: found, Away: away}
	if p.opts.inKafka() {
		p.Topic = p.opts.Topic
	}
}

// read reads both places.
func (p *Places) read(ctx context.Context) error {
	p.readStored(ctx)
	if stop, ok := errors.AsType[*cdc.StopError](p.Away); ok && stop.Reason != cdc.UnusableCheckpoint {
		return p.Away
	}
	return p.readKafka(ctx)
}

// readKafka reads the position in Kafka. At-least-once delivery ignores a topic that it has no right to, or that has something else:
// its own checkpoint counts then.
func (p *Places) readKafka(ctx context.Context) (err error) {
	if !p.opts.inKafka() {
		return nil
	}
	p.Last, p.Committed, err = p.newest(ctx)
	stop, stops := errors.AsType[*cdc.StopError](err)
	if err == nil && !p.ExactlyOnce && p.Committed && !p.Last.Source.Same(p.id) { // another relay's
		p.Last, p.Committed = cdc.Checkpoint{}, false
	}
	if !stops || p.ExactlyOnce || p.Stored.ExactlyOnce {
		return err
	}
	if stop.Class == cdc.ClassConfig || p.Found && stop.Reason == BadPosition {
		return nil
	}
	return err
}

// newest returns the position in Kafka, if there is one.
func (p *Places) newest(ctx context.Context) (cdc.Checkpoint, bool, error) {
	last, found, err := NewTopic(p.opts.Publisher()).Newest(ctx)
	if errors.Is(err, kafka.ErrTopicMissing) { // setup has yet to create it
		return last, false, nil
	}
	if err != nil {
		err = fmt.Errorf("read the position in Kafka: %w", err)
	}
	return last, found, err
}

// Counts reports whether the position in Kafka is that of exactly-once delivery, which at-least-once delivery has not superseded.
func (p *Places) Counts() bool { return p.Committed && p.Last.ExactlyOnce }

// Location says where the position that counts is stored; "" if the slot alone holds it.
func (p *Places) Location() string {
	if p.Counts() || p.opts.ExactlyOnce {
		return "Kafka topic " + p.opts.Topic
	}
	return p.store.Location()
}

// Place says where the store has the checkpoint; "" without a store.
func (p *Places) Place() string { return p.store.Location() }

// DropRead drops what Resume has read, and reports whether the position in Kafka is kept: it is if it is this relay's and the checkpoint is
// another one's, which hides it or is in its way.
func (p *Places) DropRead(ctx context.Context) (kept bool, err error) {
	if p.hidden() {
		return p.ExactlyOnce || p.Counts(), p.store.Reset(ctx)
	}
	return false, p.Reset(ctx)
}

// Settable returns the error for a position that cannot be set because what is stored is not known, or is another source's.
func Settable(load, refused error, found bool) error {
	if load != nil && (!found || cdc.ClassOf(load) != cdc.ClassPosition) {
		return load
	}
	if reason := cdc.ReasonOf(refused); reason == "foreign_checkpoint" || reason == "foreign_position" {
		return refused
	}
	return nil
}

// Resettable returns the error for a reset whose positions cannot be read. Those that cannot be used are what it is for.
func Resettable(load error) error {
	if cdc.ClassOf(load) == cdc.ClassPosition {
		return nil
	}
	return load
}

// Foreign returns the error of a reset whose run is refused because the position in Kafka is another relay's: the reset would
// fence that one and drop its position.
func Foreign(refused error) error {
	if cdc.ReasonOf(refused) != "foreign_position" {
		return nil
	}
	return cdc.Usage("name this relay's own topic in kafka.position_topic, or give --force if this database has replaced that one", "%s", refused)
}

// Moved returns the checkpoint of a position set by hand. Its new generation is above that of a relay that still runs, or is frozen, also
// where the store holds an older one: see relay's claim.
func Moved(c cdc.Checkpoint, source cdc.Source, to cdc.Position, keepsCommit bool) cdc.Checkpoint {
	c.Source = source
	c.Progress.Position, c.Progress.Part, c.Progress.XMin = to, cdc.Part{}, "" // it may be of a position that is further
	c.Progress.Backfill, c.Settled = "", ""                                    // rows that are skipped stay pending
	if !keepsCommit {                                                          // a commit that is repeated is not the last one
		c.Progress.Commit, c.Progress.TxID, c.LastEventID = "", "", ""
	}
	c.SavedAt = time.Now()
	c.Generation, c.Sequence = max(c.Generation+1, uint64(c.SavedAt.UnixMilli())), 0
	return c
}

// Set stores a position that a person gives, in place of what was read: in Kafka first if the position there counts, and in the
// store. It refuses if a relay has changed either since, and fences one that still runs.
func (p *Places) Set(ctx context.Context, c cdc.Checkpoint) error {
	c.Generation = max(c.Generation, p.Last.Generation+1, p.Stored.Generation+1)
	c.Progress.Part = cdc.Part{}
	if c.ExactlyOnce, c.PositionTopic = p.ExactlyOnce || p.Counts(), ""; !c.ExactlyOnce {
		if err := p.sameStored(ctx); err != nil {
			return err
		}
		return p.replaceStored(ctx, c)
	}
	c.Fence, c.PositionTopic = p.fence(c.Source), p.Topic
	err := p.commit(ctx, c.Source, func(t *Topic) error {
		err := p.sameInKafka(ctx, t)
		if err == nil {
			err = p.sameStored(ctx)
		}
		if err != nil {
			return err
		}
		return t.Commit(ctx, c)
	})
	if err != nil {
		return err
	}
	if err := p.replaceStored(ctx, c); !errors.Is(err, cdc.ErrFenced) { // a relay has started from the position in Kafka
		return err
	}
	return nil
}

// replaceStored stores c in place of what was read.
func (p *Places) replaceStored(ctx context.Context, c cdc.Checkpoint) error {
	err := p.store.Claim(ctx, c, p.Stored)
	if errors.Is(err, cdc.ErrStandby) {
		return cdc.Fixable("stop it first, then try again", "%w", err)
	}
	return err
}

// sameInKafka returns an error if the position in Kafka is another than the one that was read. The caller has fenced every relay
// with exactly-once delivery: none commits another one from now on.
func (p *Places) sameInKafka(ctx context.Context, t *Topic) error {
	last, found, err := t.Last(ctx)
	if err != nil {
		return fmt.Errorf("read the position in Kafka: %w", err)
	}
	if found != p.Committed || last != p.Last {
		return startedMeanwhile()
	}
	return nil
}

func (p *Places) sameStored(ctx context.Context) error {
	stored, found, err := p.store.Load(ctx)
	switch {
	case cdc.ReasonOf(err) == cdc.UnusableCheckpoint && p.Away != nil:
		err = nil // as it was
	case err == nil && (found != p.Found || stored != p.Stored):
		err = startedMeanwhile()
	}
	return err
}

func startedMeanwhile() error {
	return cdc.Fixable("stop the relay, then try again", "a relay has started and saved its own position, so nothing was changed")
}

// Reset drops the position in both places, but not the checkpoint of another relay that hides this one's position in Kafka.
func (p *Places) Reset(ctx context.Context) error {
	p.readStored(ctx) // one that is unusable is what a reset is for
	err := p.readKafka(ctx)
	bad := cdc.ReasonOf(err) == BadPosition
	if bad {
		p.Last = cdc.Checkpoint{Generation: uint64(time.Now().UnixMilli())}
	} else if err != nil {
		return err
	}
	if bad || p.Counts() || p.Committed && p.ExactlyOnce {
		err = p.commit(ctx, p.id, func(t *Topic) error {
			if !bad {
				if err := p.sameInKafka(ctx, t); err != nil {
					return err
				}
			}
			return t.Reset(ctx, p.Last)
		})
		if err != nil {
			return err
		}
	}
	if p.hidden() {
		return nil
	}
	return p.store.Reset(ctx)
}

// hidden reports whether this relay's position in Kafka is hidden by another relay's checkpoint.
func (p *Places) hidden() bool {
	return p.Committed && p.Last.Source.Same(p.id) && p.Found && !p.Stored.Source.Same(p.id)
}

func (p *Places) fence(id cdc.Source) string {
	return kafka.TransactionalID(p.opts.TransactionalID, Fence(id))
}

// commit fences every relay that may still publish, with this configuration or with an earlier one, and calls fn.
func (p *Places) commit(ctx context.Context, id cdc.Source, fn func(*Topic) error) error {
	k := p.opts.Publisher()
	defer k.Kill()
	fence := p.fence(id)
	if err := OpenPublisher(ctx, k, fence, EarlierFences(fence, id, p.Stored, p.Last)...); err != nil {
		return err
	}
	return fn(NewTopic(k))
}

// OpenPublisher repeats Open until Kafka has started.
func OpenPublisher(ctx context.Context, p Publisher, fence string, replaced ...string) error {
	return kafka.UntilStarted(ctx, func() error { return p.Open(ctx, fence, replaced...) })
}
