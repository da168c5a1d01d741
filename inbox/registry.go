package inbox

import (
	"context"
	"errors"
)

// ErrNoHandler means that a message has no handler: register one, a default, or Ignore. Another attempt cannot help.
var ErrNoHandler = errors.New("no handler")

// Handler handles a message in the transaction in which the inbox records it.
type Handler[Tx any] func(ctx context.Context, tx Tx, m *Message) error
