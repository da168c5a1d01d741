package relay

import "github.com/cdc-relay/cdc-relay/internal/cdc"

// Positions are those between which a start chooses: the last one in Kafka (K) and the checkpoint (C). The slot (S) holds one
// too; it counts where neither does. docs/maintainers/positions.md has the rules and what they are made for.
type Positions struct {
	// Topic is that of K.
	Topic string
	// ExactlyOnce is the kind of delivery that starts.
	ExactlyOnce bool
	// Last is K, Committed whether there is one. Without one only its generation may be set, after a reset.
	Last      cdc.Checkpoint
	Committed bool
	// Stored is C, Found whether there is one, Away why that is not known.
	Stored cdc.Checkpoint
	Found  bool
	Away   error
}

// Claimed is the sequence of a superseded position after at-least-once delivery has stored its first checkpoint.
const Claimed = 1

// Newest returns the position that counts; false: that of the slot, or none. It chooses by the generations: a run of either kind has a
// higher one than those before it, and writes K first. K counts until at-least-once delivery supersedes it, which it does before it
// publishes. With a [cdc.StopError] it returns the position that a person would continue from.
func (p *Positions) Newest(id cdc.Source) (cdc.Checkpoint, bool, error) {
	last, stored := p.Last, p.Stored
	foreign := p.Committed && !last.Source.Same(id)
	if !p.Committed { // the next generation must be above that of a reset
		stored.Generation = max(stored.Generation, last.Generation)
	}
	switch {
	case foreign && p.ExactlyOnce:
		return last, true, foreignPosition(p.Topic, last.Source, id)
	case p.Away != nil && !p.ExactlyOnce: // it cannot start without its store
		return stored, p.Found, p.Away
	case p.Found && stored.ExactlyOnce && p.ExactlyOnce && (!p.Committed || stored.Generation > last.Generation && ours(&stored, id)):
		return stored, true, cdc.PositionError("position_topic_lost",
			"find out what consumers have, then accept the checkpoint, or another position, with `cdc-relay position set POSITION`",
			"topic of positions %q does not have the position that the checkpoint is a copy of (%s): it was lost or replaced, and what was published behind the copy would be repeated", p.Topic, stored.Progress.Position)
	case !p.Committed, foreign, p.Found && stored.Generation > last.Generation:
		return stored, p.Found, p.Away
	case last.ExactlyOnce:
		return last, true, nil
	case p.Away != nil:
		return stored, false, p.Away
	case p.Found && stored.Generation == last.Generation:
		return stored, true, nil
	case !p.Found && (id.Slot != "" || !p.ExactlyOnce): // the slot has moved on since
		return cdc.Checkpoint{Generation: last.Generation}, false, nil
	case p.ExactlyOnce && (!p.Found || last.Sequence == Claimed && id.Slot == ""): // the slot would be ahead of the checkpoint
		return last, true, cdc.PositionError("checkpoint_lost", "find out what consumers have, then set the position with `cdc-relay position set POSITION`",
			"checkpoint of at-least-once delivery is lost, and what it published since the position in Kafka (%s) would be repeated", last.Progress.Position)
	}
	return last, true, nil
}

func foreignPosition(topic string, of, id cdc.Source) error {
	return cdc.PositionError("foreign_position", "give each relay a kafka.position_topic and a source of its own",
		"topic of positions %q has the position of another source (system %s, database %s, slot %s), this one is system %s, database %s, slot %s",
		topic, of.SystemID, of.Database, of.Slot, id.SystemID, id.Database, id.Slot)
}
