package checkpoint

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// None stores nothing: PostgreSQL's slot holds the only position. Without a checkpoint, a slot that was moved or
// recreated is not detected.
type None struct{}

// Load finds nothing.
func (None) Load(context.Context) (c cdc.Checkpoint, found bool, err error) {
	return cdc.Checkpoint{}, false, nil
}

// Claim succeeds and does nothing.
func (None) Claim(context.Context, cdc.Checkpoint, cdc.Checkpoint) error { return nil }

// Save succeeds and does nothing.
func (None) Save(context.Context, cdc.Checkpoint) error { return nil }

// Reset succeeds and does nothing.
func (None) Reset(context.Context) error { return nil }

// Check reports that no checkpoint is stored.
func (None) Check(context.Context) []cdc.Finding {
	return []cdc.Finding{{
		Severity: cdc.SeverityInfo,
		Subject:  subject,
		Text:     "no checkpoint is stored: the slot alone holds the position, and a slot that was moved or recreated is not detected",
		Fix:      "set checkpoint.redis or checkpoint.file, so that every start verifies the slot",
	}}
}

// Location is nowhere.
func (None) Location() string { return "" }

// Close succeeds and does nothing.
func (None) Close() error { return nil }
