package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
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

func failed(err error) cdc.Finding { return cdc.FailedFinding(subject, err) }

// location says in errors where a checkpoint is stored.
type location struct {
	// name is "redis key orders" or "checkpoint file /var/lib/x".
	name string
	// setting is the configuration key that chose it.
	setting string
}

// mayStore returns the error if next, whose stored form is value, must not replace was; claimed is what a claim replaces. Content that cannot
// be decoded is replaced by a copy of the position in Kafka, which loses nothing, and another source's checkpoint by a claim that continues
// from it.
func (l location) mayStore(next cdc.Checkpoint, value, was []byte, claimed *cdc.Checkpoint) error {
	stored, err := decode(was)
	newer := supersedes(next, stored.Checkpoint)
	continues := claimed != nil && newer && stored.Generation == claimed.Generation && stored.Sequence == claimed.Sequence
	switch {
	case err != nil && next.ExactlyOnce && !errors.Is(err, errNewer):
		return nil
	case err != nil:
		return l.unusable(err)
	case bytes.Equal(was, value): // repeated, because its answer was lost
		return nil
	case !stored.Reset && !stored.Source.Same(next.Source) && (!continues || !stored.Source.Same(claimed.Source)):
		return cdc.Stop(cdc.ClassPosition, "foreign_checkpoint", fmt.Errorf("%s holds the checkpoint of another source (%s; this one is %s)",
			l.name, describe(stored.Source), describe(next.Source)),
			"give each relay its own "+l.setting+", or run `cdc-relay position reset` if this database has replaced the other one")
	case !newer && stored.Reset:
		return cdc.Stop(cdc.ClassFenced, "fenced", &failure{
			text: fmt.Sprintf("%s was reset at %s while this relay (generation %d) ran", l.name, stored.SavedAt.Format(time.RFC3339), next.Generation),
			err:  cdc.ErrFenced,
		}, "start it again once it is clear where it is to begin, and stop it before the next `cdc-relay position reset` or `cdc-relay teardown --yes`")
	case !newer:
		return cdc.Stop(cdc.ClassFenced, "fenced", fmt.Errorf(
			"another relay has taken over: %s was written by generation %d, sequence %d, at %s and ours is generation %d, sequence %d: %w",
			l.name, stored.Generation, stored.Sequence, stored.SavedAt.Format(time.RFC3339),
			next.Generation, next.Sequence, cdc.ErrFenced), "restart this relay: it stands by then")
	case claimed != nil && !continues: // it came too late, and may be repeated
		return fmt.Errorf("%s was saved by another relay while this one was taking over", l.name)
	}
	return nil
}

// load returns what a stored value has, as Load does.
func (l location) load(value []byte) (cdc.Checkpoint, bool, error) {
	held, err := decode(value)
	if err != nil {
		return cdc.Checkpoint{}, false, l.unusable(err)
	}
	return held.loaded()
}

// unusable returns the error for stored content that is not a usable checkpoint.
func (l location) unusable(err error) error {
	reason := cdc.UnusableCheckpoint
	fix := fmt.Sprintf("restore a good copy, set %s to another location, or drop it with `cdc-relay position reset`, to continue from the slot; "+
		"on MySQL and MariaDB then publish what consumers may lack, and store a position, with `cdc-relay repair --since TIME`", l.setting)
	if errors.Is(err, errNewer) {
		reason, fix = "checkpoint_newer", "run the cdc-relay that wrote it, or a newer one"
	}
	return cdc.Stop(cdc.ClassPosition, reason, &failure{
		text: fmt.Sprintf("%s holds no checkpoint that can be used (%v)", l.name, err),
		err:  err,
	}, fix)
}

func describe(s cdc.Source) string {
	return fmt.Sprintf("system %s, database %q, slot %q", s.SystemID, s.Database, s.Slot)
}
