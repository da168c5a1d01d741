package checkpoint

import (
	"errors"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/finding"
)

// failure is the cause of an error whose text replaces that of the error it wraps.
type failure struct {
	text string
	err  error
}

func (f *failure) Error() string { return f.text }

func (f *failure) Unwrap() error { return f.err }

// subject is what findings of this package are about.
const subject = "checkpoint"

func failed(err error) finding.Finding { return finding.Failed(subject, err) }

// place says in errors where a checkpoint is kept.
type place struct {
	// name is "redis key orders" or "checkpoint file /var/lib/x".
	name string
	// setting is the configuration key that chose it.
	setting string
}

// refuse says why next may not take stored's place; nil if it may.
func (p place) refuse(next cdc.Checkpoint, stored content) error {
	switch {
	case !stored.reset && !stored.Source.Same(next.Source):
		return cdc.Stop(cdc.ClassPosition, "foreign_checkpoint", fmt.Errorf("%s holds the checkpoint of another source (%s; this one is %s)",
			p.name, describe(stored.Source), describe(next.Source)),
			"give each relay a place of its own in "+p.setting+", or run 'cdc-relay position reset' if this database has taken the other's place")
	case supersedes(next, stored.Checkpoint):
		return nil
	case stored.reset:
		return cdc.Stop(cdc.ClassFenced, "fenced", &failure{
			text: fmt.Sprintf("%s was reset at %s while this relay (generation %d) ran", p.name, stored.SavedAt.Format(time.RFC3339), next.Generation),
			err:  cdc.ErrFenced,
		}, "start it again once it is clear where it is to begin, and stop it before the next 'cdc-relay position reset' or 'cdc-relay teardown'")
	default:
		return cdc.Stop(cdc.ClassFenced, "fenced", fmt.Errorf(
			"another relay has taken over: %s was written by generation %d, sequence %d, at %s and ours is generation %d, sequence %d: %w",
			p.name, stored.Generation, stored.Sequence, stored.SavedAt.Format(time.RFC3339),
			next.Generation, next.Sequence, cdc.ErrFenced), "run only one relay with this checkpoint: stop one of them")
	}
}

// unusable is the error for stored content that is not a checkpoint of ours.
func (p place) unusable(err error) error {
	fix := fmt.Sprintf("put a good copy back, name another place in %s, or run 'cdc-relay position reset' to go on from the slot, or to say anew where to begin where there is none", p.setting)
	if errors.Is(err, errNewer) {
		fix = "run the cdc-relay that wrote it, or a newer one"
	}
	return cdc.Stop(cdc.ClassPosition, "checkpoint_unusable", &failure{
		text: fmt.Sprintf("%s holds no checkpoint that can be used (%v)", p.name, err),
		err:  err,
	}, fix)
}

func describe(s cdc.Source) string {
	return fmt.Sprintf("system %s, database %q, slot %q", s.SystemID, s.Database, s.Slot)
}
