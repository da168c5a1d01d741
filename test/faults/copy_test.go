package faults

import (
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// At-least-once delivery finds a copy of a position that is not in its topic: the topic's setting was reverted with the kind of delivery,
// the position was reset while the checkpoint was left out, or the topic is lost. Then exactly-once delivery with the former topic, which
// has no position to start from again. What is printed is done each time.
//
//covers:binlogs 13 events both
func TestCopyWithoutItsPosition(t *testing.T) {
	t.Parallel()
	onBinlogs(t, func(t *testing.T, db *cdctest.MySQL) {
		r := newRig(t, db, cdctest.InFile, exactlyOnce)
		checkpoint, topic := r.Config["checkpoint"], r.Topic+"-positions"
		copied := func(saved bool) { // exactly-once delivery leaves the checkpoint as a copy; with false, one that is behind
			t.Helper()
			deliver(r, cdctest.ExactlyOnce)
			r.Start()
			r.AwaitSaved(r.Append("k", 10))
			sigterm(r)
			if saved {
				return
			}
			r.Reconfigure("checkpoint", nil)
			r.Start()
			r.AwaitEvents(r.Append("k", 10))
			sigterm(r)
			once(t, r)
		}
		back := func() (said string) {
			t.Helper()
			deliver(r, cdctest.AtLeastOnce)
			r.Reconfigure("checkpoint", checkpoint)
			fails(t, r, "position set POSITION", "check")
			if said := command(t, r, "setup"); !strings.Contains(said, "position set POSITION") {
				t.Errorf("setup does not say so: %s", said)
			}
			return refuses(t, r, 5)
		}
		starts := func() {
			t.Helper()
			r.Start()
			r.AwaitSaved(r.Append("k", 10))
			sigterm(r)
		}

		copied(false)
		r.Reconfigure("kafka.position_topic", nil)
		setting, err := cdctest.Printed(back(), "kafka.position_topic: ")
		r.Must(err)
		r.Reconfigure("kafka.position_topic", strings.TrimPrefix(setting, "kafka.position_topic: "))
		r.Reconfigure("kafka.transactional_id", "none")
		if said := back(); !strings.Contains(said, "leave kafka.transactional_id out if it is none, until the relay has started once") {
			t.Errorf("it says %s", said)
		}
		r.Reconfigure("kafka.transactional_id", nil)
		starts()
		r.Reconfigure("checkpoint", nil)
		deliver(r, cdctest.ExactlyOnce)
		if said := refuses(t, r, 5); !strings.Contains(said, "at-least-once delivery is lost") {
			t.Errorf("it says %s", said)
		}
		r.Reconfigure("checkpoint", checkpoint)

		copied(false)
		reset := command(t, r, "position", "reset")
		_, position, _ := strings.Cut(reset, "its position was ")
		position, _, _ = strings.Cut(position, ")")
		follow(t, r, back(), "position set", "POSITION", position)
		starts()

		copied(true)
		position, _, err = r.Saved(t.Context())
		r.Must(err)
		deleteTopic(t, topic)
		follow(t, r, back(), "position set", "POSITION", position)
		starts()
		once(t, r)
	})
}
