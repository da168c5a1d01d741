package checkpoint

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Every combination of what may be known of the position in Kafka (K) and of the checkpoint (C), for both kinds of delivery, with a
// slot and without. The wanted outcome is written down for each as a table: docs/maintainers/positions.md.
func TestEveryCombinationOfPositions(t *testing.T) {
	const generation = 5
	ours, other := cdc.Source{SystemID: "s", Database: "d"}, cdc.Source{SystemID: "t", Database: "d"}
	// K, for C of generation 5 where it is compared.
	inKafka := map[string]cdc.Checkpoint{
		"none":               {},
		"reset":              {Generation: 9},
		"counts":             {ExactlyOnce: true},
		"superseded":         {},
		"superseded,claimed": {Sequence: claimed},
		"foreign":            {ExactlyOnce: true},
	}
	// The outcome by K and C: K, C, none, or the reason of an error. First with exactly-once delivery, then with at-least-once.
	// Where C is older or newer, its generation is compared with K's.
	want := map[string][2]string{
		"none/none": {"none", "none"}, "none/alo": {"C", "C"}, "none/copy": {"position_topic_lost", "position_topic_lost"}, "none/away": {"away", "away"}, "none/unusable": {"checkpoint_unusable", "checkpoint_unusable"},
		"reset/none": {"none", "none"}, "reset/alo": {"C", "C"}, "reset/copy": {"position_topic_lost", "position_reset"}, "reset/away": {"away", "away"}, "reset/unusable": {"checkpoint_unusable", "checkpoint_unusable"},

		"counts/none": {"K", "K"}, "counts/away": {"K", "away"}, "counts/unusable": {"K", "checkpoint_unusable"},
		"counts/alo older": {"K", "K"}, "counts/alo same": {"K", "K"}, "counts/alo newer": {"C", "C"},
		"counts/copy older": {"K", "K"}, "counts/copy same": {"K", "K"}, "counts/copy newer": {"position_topic_lost", "position_topic_lost"},

		"superseded/none": {"checkpoint_lost", "none"}, "superseded/away": {"away", "away"}, "superseded/unusable": {"checkpoint_unusable", "checkpoint_unusable"},
		"superseded/alo older": {"K", "K"}, "superseded/alo same": {"C", "C"}, "superseded/alo newer": {"C", "C"},
		"superseded/copy older": {"K", "K"}, "superseded/copy same": {"C", "C"}, "superseded/copy newer": {"position_topic_lost", "position_topic_lost"},

		"superseded,claimed/none": {"checkpoint_lost", "none"}, "superseded,claimed/away": {"away", "away"}, "superseded,claimed/unusable": {"checkpoint_unusable", "checkpoint_unusable"},
		"superseded,claimed/alo older": {"checkpoint_lost", "K"}, "superseded,claimed/alo same": {"C", "C"}, "superseded,claimed/alo newer": {"C", "C"},
		"superseded,claimed/copy older": {"checkpoint_lost", "K"}, "superseded,claimed/copy same": {"C", "C"}, "superseded,claimed/copy newer": {"position_topic_lost", "position_topic_lost"},

		"foreign/none": {"foreign_position", "none"}, "foreign/alo": {"foreign_position", "C"}, "foreign/copy": {"foreign_position", "position_topic_lost"}, "foreign/away": {"foreign_position", "away"}, "foreign/unusable": {"foreign_position", "checkpoint_unusable"},
	}
	// With a slot, which moves on while at-least-once delivery publishes, a checkpoint that is lost is found out by comparing with it.
	withSlot := map[string]string{
		"superseded/none": "none", "superseded,claimed/none": "none",
		"superseded,claimed/alo older": "K", "superseded,claimed/copy older": "K",
	}
	seen := 0
	for k, last := range inKafka {
		ages := map[string]uint64{"": generation}
		compared := strings.HasPrefix(k, "counts") || strings.HasPrefix(k, "superseded")
		if compared {
			ages = map[string]uint64{" older": generation + 1, " same": generation, " newer": generation - 1} // of C, by K's generation
		}
		for _, c := range []string{"none", "alo", "copy", "away", "unusable"} {
			for age, inK := range ages {
				stored := c == "alo" || c == "copy"
				name := k + "/" + c
				if stored {
					name += age
				}
				for kind, once := range map[string]bool{"exactly-once": true, "at-least-once": false} {
					for _, slot := range []string{"", "x"} {
						seen++
						id, foreign := ours, other
						id.Slot, foreign.Slot = slot, slot
						p := Known{Topic: "positions", ExactlyOnce: once, Committed: k != "none" && k != "reset", Found: stored}
						if p.Last = last; p.Committed {
							p.Last.Source, p.Last.Generation, p.Last.Progress.Position = id, inK, "K"
						}
						if k == "foreign" {
							p.Last.Source = foreign
						}
						if stored {
							p.Stored = cdc.Checkpoint{Source: id, Generation: generation, ExactlyOnce: c == "copy", Progress: cdc.Progress{Position: "C"}}
						}
						switch c {
						case "away":
							p.Away = errors.New("redis: connection refused")
						case "unusable":
							p.Away = cdc.Stop(cdc.ClassPosition, cdc.UnusableCheckpoint, errors.New("garbage"), "")
						}
						w := want[name][0]
						if !once {
							w = want[name][1]
						} else if s, ok := withSlot[name]; ok && slot != "" {
							w = s
						}
						if got := outcome(&p, id); got != w {
							t.Errorf("%s, %s, slot %q: %s, want %s", name, kind, slot, got, w)
						}
					}
				}
			}
		}
	}
	if seen < 200 {
		t.Errorf("only %d combinations", seen)
	}
}

// outcome says what counts.
func outcome(p *Known, id cdc.Source) string {
	c, found, err := p.Newest(id)
	stop, stops := errors.AsType[*cdc.StopError](err)
	switch {
	case stops:
		return stop.Reason
	case err != nil:
		return "away"
	case !found && c.Progress.Position != "":
		return fmt.Sprintf("%q, which is not there", c.Progress.Position)
	case !found && p.Last.Generation > c.Generation && p.Last.Source.Same(id):
		return "a generation that a later start does not exceed"
	case !found:
		return "none"
	}
	return string(c.Progress.Position)
}
