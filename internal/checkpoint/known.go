package checkpoint

import (
	"cmp"
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Known holds the positions between which a start chooses: the last one in Kafka (K) and the checkpoint (C). The slot (S) holds one
// too; it counts where neither does. docs/maintainers/positions.md has the rules and what they are made for.
type Known struct {
	// Topic is that of K; "" if this configuration has none, or could not supersede K.
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

// claimed is the sequence of a superseded position after at-least-once delivery has stored its first checkpoint.
const claimed = 1

// Newest returns the position that counts; false: that of the slot, or none. It chooses by the generations: a run of either kind has a
// higher one than those before it, and writes K first. K counts until at-least-once delivery supersedes it, which it does before it
// publishes. With a [cdc.StopError] it returns the position that a person would continue from.
func (p *Known) Newest(id cdc.Source) (cdc.Checkpoint, bool, error) {
	last, stored := p.Last, p.Stored
	foreign := p.Committed && !last.Source.Same(id)
	// A copy whose K is not there.
	orphan := p.Found && stored.ExactlyOnce && (!p.Committed || foreign || stored.Generation > last.Generation)
	if !p.Committed { // the next generation must be above that of a reset
		stored.Generation = max(stored.Generation, last.Generation)
	}
	switch {
	case foreign && p.ExactlyOnce:
		return last, true, foreignPosition(p.Topic, last.Source, id)
	case p.Away != nil && !p.ExactlyOnce: // it cannot start without its store
		return stored, p.Found, p.Away
	case orphan && p.ExactlyOnce && (!p.Committed || ours(&stored, id)):
		return stored, true, cdc.PositionError("position_topic_lost",
			"find out what consumers have, then accept the checkpoint, or another position, with `cdc-relay position set POSITION --skip-events`",
			"topic of positions %q does not have the position that the checkpoint is a copy of (%s): it was lost or replaced, and what was published after the copy would be repeated", p.Topic, stored.Progress.Position)
	case orphan && !p.ExactlyOnce && stored.Source.Same(id):
		return stored, true, p.notSuperseded()
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
	case p.ExactlyOnce && (!p.Found || last.Sequence == claimed && id.Slot == ""): // the slot would be ahead of the checkpoint
		return last, true, cdc.PositionError("checkpoint_lost", "find out what consumers have, then set the position with `cdc-relay position set POSITION --skip-events`",
			"checkpoint of at-least-once delivery is lost, and what it published since the position in Kafka (%s) would be repeated", last.Progress.Position)
	}
	return last, true, nil
}

// notSuperseded returns the error for a copy of a position that at-least-once delivery does not find. It would have to supersede that
// before it publishes, or exactly-once delivery could start from it again.
func (p *Known) notSuperseded() error {
	copied := p.Stored.Progress.Position
	if !p.Committed && p.Last.Generation > p.Stored.Generation {
		return cdc.PositionError("position_reset", "find out what consumers have, then set the position with `cdc-relay position set POSITION --skip-events`",
			"position in Kafka topic %q was reset, and the checkpoint is a copy of an earlier one (%s): what was published after it would be repeated", p.Topic, copied)
	}
	return cdc.PositionError("position_topic_lost", fmt.Sprintf("set `kafka.position_topic: %s`, as exactly-once delivery had it, and leave kafka.transactional_id out if it is none, until the relay has started once; "+
		"if that topic is lost, find out what consumers have and accept the checkpoint, or another position, with `cdc-relay position set POSITION --skip-events`", cmp.Or(p.Stored.PositionTopic, "NAME")),
		"position in Kafka that the checkpoint is a copy of (%s) is not found with this configuration (topic %q): at-least-once delivery has to mark it as superseded, or exactly-once delivery could start from it again", copied, p.Topic)
}

func foreignPosition(topic string, of, id cdc.Source) error {
	return cdc.PositionError("foreign_position", "give each relay a kafka.position_topic and a source of its own; or, if this database has replaced the other one, run `cdc-relay position reset --force`, then `cdc-relay repair --since TIME`",
		"topic of positions %q has the position of another source (system %s, database %s, slot %s), this one is system %s, database %s, slot %s",
		topic, of.SystemID, of.Database, of.Slot, id.SystemID, id.Database, id.Slot)
}
