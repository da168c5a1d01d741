package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cdc-relay/cdc-relay/writer"
)

// Handler handles a message in the transaction in which the inbox records it. The unit, see [writer.Unit], takes events that are appended
// in the transaction, and functions to be called after it. On MySQL and MariaDB DDL, TRUNCATE and GRANT commit: they do not belong in handlers.
type Handler[Tx any] func(ctx context.Context, tx Tx, u *writer.Unit, m *Message) error

// Interceptor wraps handlers: what it does before next happens in the order of [Registry.Use], what it does after it in
// reverse.
type Interceptor[Tx any] func(next Handler[Tx]) Handler[Tx]

var (
	// ErrNoHandler means that a message has no handler. It is permanent: another attempt cannot help.
	ErrNoHandler = errors.New("no handler")

	// ErrDuplicateHandler means that a second handler was registered for the same messages.
	ErrDuplicateHandler = errors.New("a handler is registered already")
)

// Registry has one handler for each pair of aggregate type and event type. The zero value is empty. Fill it before its
// first use; then it is safe for concurrent use.
type Registry[Tx any] struct {
	handlers map[kind]Handler[Tx]
	fallback Handler[Tx]
	chain    []Interceptor[Tx]
}

// kind is what a handler is registered for; "" is any.
type kind struct{ aggregateType, eventType string }

// On registers the handler for an aggregate type and an event type; "" is any. A message goes to the handler of its pair,
// else to that of its event type, else to that of its aggregate type, else to the default.
//
// It fails with [ErrDuplicateHandler] if one is registered already: use [All] to run several.
func (r *Registry[Tx]) On(aggregateType, eventType string, h Handler[Tx]) error {
	k := kind{aggregateType, eventType}
	switch {
	case h == nil:
		return fmt.Errorf("register handler for %s: the handler is nil: give On a function", k)
	case k == kind{}:
		return errors.New("register handler: both types are empty: use Default for all other messages")
	case r.handlers[k] != nil:
		return fmt.Errorf("register handler for %s: %w: use All to run several", k, ErrDuplicateHandler)
	case r.handlers == nil:
		r.handlers = map[kind]Handler[Tx]{}
	}
	r.handlers[k] = h
	return nil
}

// OnJSON registers a handler that gets the value decoded into a T. A value that is not JSON of a T is a permanent error, as
// is a tombstone.
func OnJSON[T, Tx any](r *Registry[Tx], aggregateType, eventType string, h func(ctx context.Context, tx Tx, u *writer.Unit, m *Message, v T) error) error {
	if h == nil {
		return r.On(aggregateType, eventType, nil)
	}
	return r.On(aggregateType, eventType, func(ctx context.Context, tx Tx, u *writer.Unit, m *Message) error {
		var v T
		if m.Value == nil {
			return Permanent(fmt.Errorf("%s: the value is null (a tombstone), not JSON: handle tombstones with On", m.place()))
		}
		if err := json.Unmarshal(m.Value, &v); err != nil {
			return Permanent(fmt.Errorf("%s: the value is not JSON of a %T: %w", m.place(), v, err))
		}
		return h(ctx, tx, u, m, v)
	})
}

// Default sets the handler of all other messages. Without one they are an [ErrNoHandler]. One that returns nil is for messages
// that need no work: they are recorded as handled.
func (r *Registry[Tx]) Default(h Handler[Tx]) { r.fallback = h }

// Use adds interceptors, which wrap every handler.
func (r *Registry[Tx]) Use(i ...Interceptor[Tx]) { r.chain = append(r.chain, i...) }

// Handle gives the message to its handler, in the interceptors. A panic is returned as *[PanicError]. A message with an invalid
// attribute has none, and the error is permanent, see [Message].
func (r *Registry[Tx]) Handle(ctx context.Context, tx Tx, u *writer.Unit, m *Message) error {
	return call(ctx, tx, func(ctx context.Context, tx Tx) error {
		h := r.find(m)
		for _, i := range slices.Backward(r.chain) {
			h = i(h)
		}
		return h(ctx, tx, u, m)
	})
}

func (r *Registry[Tx]) find(m *Message) Handler[Tx] {
	if m.Invalid != "" {
		return func(context.Context, Tx, *writer.Unit, *Message) error {
			return Permanent(fmt.Errorf("%s: %s", m.place(), m.Invalid))
		}
	}
	for _, k := range []kind{{m.AggregateType, m.Type}, {"", m.Type}, {m.AggregateType, ""}} {
		if h := r.handlers[k]; h != nil {
			return h
		}
	}
	if r.fallback != nil {
		return r.fallback
	}
	return func(context.Context, Tx, *writer.Unit, *Message) error {
		return fmt.Errorf("%s: %w for %s: register one with On, or one for all others with Default", m.place(), ErrNoHandler, kind{m.AggregateType, m.Type})
	}
}

func (k kind) String() string {
	return fmt.Sprintf("event type %q of aggregate type %q", k.eventType, k.aggregateType)
}

// All returns a handler that runs several in one transaction, each one also after another has failed, and joins their
// errors. Either all their work is committed or none. After an error of the database the rest is not run: it may have ended
// the transaction, as MySQL and MariaDB do in a deadlock, and then commit each statement by itself.
func All[Tx any](hs ...Handler[Tx]) Handler[Tx] {
	return func(ctx context.Context, tx Tx, u *writer.Unit, m *Message) error {
		var errs []error
		for _, h := range hs {
			err := call(ctx, tx, func(ctx context.Context, tx Tx) error { return h(ctx, tx, u, m) })
			errs = append(errs, err)
			if state, number := writer.ServerError(err); state != "" || number != 0 {
				break
			}
		}
		return errors.Join(errs...)
	}
}
