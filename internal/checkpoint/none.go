package checkpoint

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/finding"
)

// None keeps nothing: the source's own memory, PostgreSQL's slot, is the only position. It cannot tell
// a slot that somebody moved or made anew; a stored checkpoint can.
type None struct{}

// Load finds nothing.
func (None) Load(context.Context) (c cdc.Checkpoint, found bool, err error) {
	return cdc.Checkpoint{}, false, nil
}

// Save succeeds and does nothing.
func (None) Save(context.Context, cdc.Checkpoint) error { return nil }

// Reset succeeds and does nothing.
func (None) Reset(context.Context) error { return nil }

// Check says that there is nothing to check.
func (None) Check(context.Context) []finding.Finding {
	return []finding.Finding{{
		Severity: finding.Info,
		Subject:  subject,
		Text:     "no checkpoint is kept: the slot alone holds the position, and a slot that was moved or made anew cannot be told from ours",
		Fix:      "set checkpoint.redis or checkpoint.file to have that checked at every start",
	}}
}

// Close succeeds and does nothing.
func (None) Close() error { return nil }
