package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const formVersion = 1

// form is a checkpoint as it is stored; the package comment describes it byte by byte.
type form struct {
	Version int `json:"version"`
	cdc.Checkpoint

	// Reset means that the checkpoint was deleted; only Generation and Sequence count, see [Redis.Reset].
	Reset bool `json:"reset,omitempty"`
}

var (
	errNotUTF8 = errors.New("encode checkpoint: a name or position is not UTF-8")
	errNewer   = errors.New("written by a newer cdc-relay")
)

func encode(c cdc.Checkpoint) ([]byte, error) {
	for _, s := range [...]string{
		c.Source.SystemID, c.Source.Database, c.Source.Slot,
		c.Source.Fingerprint, c.Source.Server, c.Fence, string(c.Progress.Position), string(c.Progress.Commit), c.Progress.TxID,
		c.Progress.Part.TxID, c.Progress.Part.Tables, c.Progress.XMin, c.Progress.Hint, c.PositionTopic, c.Progress.Backfill,
	} {
		if !utf8.ValidString(s) { // JSON would store another text, and the source would look foreign
			return nil, errNotUTF8
		}
	}
	c.SavedAt = c.SavedAt.UTC()
	value, err := json.Marshal(form{Version: formVersion, Checkpoint: c})
	if err != nil {
		return nil, fmt.Errorf("encode checkpoint: %w", err)
	}
	return value, nil
}

// loaded returns c as Load does. The generation survives a reset, because the next run needs a higher one.
func (c form) loaded() (_ cdc.Checkpoint, found bool, err error) {
	if c.Reset {
		return cdc.Checkpoint{Generation: c.Generation, Sequence: c.Sequence}, false, nil
	}
	return c.Checkpoint, true, nil
}

// encodeReset returns the mark that replaces value and fences a relay that still runs: saves of value's generation, and
// of a run that starts at this moment, are older than the mark. If value is not a checkpoint, the mark's generation is
// the clock's milliseconds, which are more than any counted generation.
func encodeReset(value []byte, now time.Time) ([]byte, error) {
	generation := uint64(now.UnixMilli())
	if old, err := decode(value); err == nil {
		generation = old.Generation + 1
	}
	mark, err := json.Marshal(form{formVersion, cdc.Checkpoint{Generation: generation, Sequence: math.MaxUint64, SavedAt: now.UTC()}, true})
	if err != nil {
		return nil, fmt.Errorf("encode reset: %w", err)
	}
	return mark, nil
}

func decode(value []byte) (form, error) {
	var f form
	if err := json.Unmarshal(value, &f); err != nil {
		return form{}, fmt.Errorf("decode checkpoint: %w", err)
	}
	switch {
	case f.Version > formVersion:
		return form{}, fmt.Errorf("decode checkpoint: form %d and not %d: %w", f.Version, formVersion, errNewer)
	case f.Version != formVersion:
		return form{}, fmt.Errorf("decode checkpoint: there is no form %d", f.Version)
	}
	return f, nil
}

// supersedes reports whether next is of a newer run than stored, or later in the same run.
func supersedes(next, stored cdc.Checkpoint) bool {
	if next.Generation != stored.Generation {
		return next.Generation > stored.Generation
	}
	return next.Sequence > stored.Sequence
}
