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
	Version     int        `json:"version"`
	Source      sourceForm `json:"source"`
	Position    string     `json:"position"`
	Commit      string     `json:"commit"`
	TxID        string     `json:"txid"`
	Generation  uint64     `json:"generation,string"`
	Sequence    uint64     `json:"sequence,string"`
	Fence       string     `json:"fence"`
	LastEventID string     `json:"last_event_id"`
	SavedAt     time.Time  `json:"saved_at"`
	Reset       bool       `json:"reset,omitempty"`
	Part        *partForm  `json:"part,omitempty"`
	ExactlyOnce bool       `json:"exactly_once,omitempty"`
	Topic       string     `json:"position_topic,omitempty"`
	XMin        string     `json:"xmin,omitempty"`
	Hint        string     `json:"hint,omitempty"`
	Backfill    string     `json:"backfill,omitempty"`
	Settled     string     `json:"settled,omitempty"`
}

type partForm struct {
	TxID   string `json:"txid"`
	Rows   uint32 `json:"rows"`
	Tables string `json:"tables"`
}

type sourceForm struct {
	SystemID string `json:"system_id"`
	Database string `json:"database"`
	Slot     string `json:"slot"`
	Timeline uint32 `json:"timeline"`

	Fingerprint string `json:"fingerprint"`
	Server      string `json:"server,omitempty"`
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
	var part *partForm
	if p := partForm(c.Progress.Part); p.Rows > 0 {
		part = &p
	}
	value, err := json.Marshal(form{
		Version:     formVersion,
		Part:        part,
		ExactlyOnce: c.ExactlyOnce,
		Topic:       c.PositionTopic,
		Source:      sourceForm(c.Source),
		Position:    string(c.Progress.Position),
		Commit:      string(c.Progress.Commit),
		TxID:        c.Progress.TxID,
		XMin:        c.Progress.XMin,
		Hint:        c.Progress.Hint,
		Backfill:    c.Progress.Backfill,
		Settled:     c.Settled,
		Generation:  c.Generation,
		Sequence:    c.Sequence,
		Fence:       c.Fence,
		LastEventID: c.LastEventID,
		SavedAt:     c.SavedAt.UTC(),
	})
	if err != nil {
		return nil, fmt.Errorf("encode checkpoint: %w", err)
	}
	return value, nil
}

// content is a decoded stored value.
type content struct {
	cdc.Checkpoint

	// reset means that the checkpoint was deleted; only Generation and Sequence count, see [Redis.Reset].
	reset bool
}

// loaded returns c as Load does. The generation survives a reset, because the next run needs a higher one.
func (c content) loaded() (_ cdc.Checkpoint, found bool, err error) {
	if c.reset {
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
	mark, err := json.Marshal(form{Version: formVersion, Generation: generation, Sequence: math.MaxUint64, SavedAt: now.UTC(), Reset: true})
	if err != nil {
		return nil, fmt.Errorf("encode reset: %w", err)
	}
	return mark, nil
}

func decode(value []byte) (content, error) {
	var f form
	if err := json.Unmarshal(value, &f); err != nil {
		return content{}, fmt.Errorf("decode checkpoint: %w", err)
	}
	switch {
	case f.Version > formVersion:
		return content{}, fmt.Errorf("decode checkpoint: form %d and not %d: %w", f.Version, formVersion, errNewer)
	case f.Version != formVersion:
		return content{}, fmt.Errorf("decode checkpoint: there is no form %d", f.Version)
	}
	var part cdc.Part
	if f.Part != nil {
		part = cdc.Part(*f.Part)
	}
	return content{reset: f.Reset, Checkpoint: cdc.Checkpoint{
		Source:      cdc.Source(f.Source),
		Progress:    cdc.Progress{Position: cdc.Position(f.Position), Commit: cdc.Position(f.Commit), TxID: f.TxID, XMin: f.XMin, Hint: f.Hint, Backfill: f.Backfill, Part: part},
		ExactlyOnce: f.ExactlyOnce, PositionTopic: f.Topic,
		Generation:  f.Generation,
		Sequence:    f.Sequence,
		Fence:       f.Fence,
		LastEventID: f.LastEventID,
		SavedAt:     f.SavedAt,
		Settled:     f.Settled,
	}}, nil
}

// supersedes reports whether next is of a newer run than stored, or later in the same run.
func supersedes(next, stored cdc.Checkpoint) bool {
	if next.Generation != stored.Generation {
		return next.Generation > stored.Generation
	}
	return next.Sequence > stored.Sequence
}
