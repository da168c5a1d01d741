package writer

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"
)

// Interceptor gets the events of an Append before they are checked, and returns those to write, in order; none means that
// nothing is written. It may change the events, leave some out and add others.
//
// The events are copies, with their headers and payload: the caller's events keep their content, so a transaction that is
// run again does not change them twice. IDs and times were set in the caller's events first, so another attempt writes the
// same events. An added event without an ID gets a new one in each attempt.
//
// Append returns an interceptor's error unchanged, and has sent nothing then. Interceptors are called concurrently by
// concurrent calls of Append.
type Interceptor func(ctx context.Context, events []*Event) ([]*Event, error)

// WithInterceptor adds interceptors, which run in the order in which they are given. [WithHeaders] and [WithTenant] take
// their turn among them.
func WithInterceptor(chain ...Interceptor) Option {
	return func(c *config) error {
		for _, i := range chain {
			if i == nil {
				return errors.New("an interceptor is nil: give WithInterceptor functions")
			}
		}
		c.chain, c.copyPayloads = append(c.chain, chain...), true
		return nil
	}
}

// WithHeaders adds the headers that from returns to each event, such as a trace context. Those that an event has itself
// are kept. from is called once for each Append; its result is not changed.
func WithHeaders(from func(context.Context) map[string]string) Option {
	return func(c *config) error {
		if from == nil {
			return errors.New("the source of headers is nil: give WithHeaders a function")
		}
		c.chain = append(c.chain, func(ctx context.Context, events []*Event) ([]*Event, error) {
			common := from(ctx)
			for _, e := range events {
				if e == nil || len(common) == 0 {
					continue // nil is reported by the check
				}
				headers := maps.Clone(common)
				maps.Copy(headers, e.Headers)
				e.Headers = headers
			}
			return events, nil
		})
		return nil
	}
}

// WithTenant sets the tenant of events without a TenantID. from is called once for each Append; "" is no tenant.
func WithTenant(from func(context.Context) string) Option {
	return func(c *config) error {
		if from == nil {
			return errors.New("the source of tenants is nil: give WithTenant a function")
		}
		c.chain = append(c.chain, func(ctx context.Context, events []*Event) ([]*Event, error) {
			tenant := from(ctx)
			for _, e := range events {
				if e != nil && e.TenantID == "" {
					e.TenantID = tenant
				}
			}
			return events, nil
		})
		return nil
	}
}

// WithObserver adds a function that is called after the INSERT of an Append with the events that were written, for example
// to count them. The transaction may still be rolled back. The function must not keep or change the events.
func WithObserver(written func(ctx context.Context, events []*Event)) Option {
	return func(c *config) error {
		if written == nil {
			return errors.New("the observer is nil: give WithObserver a function")
		}
		c.observers = append(c.observers, written)
		return nil
	}
}

// WithIDs replaces the source of IDs, for tests. The default makes version 7 UUIDs, whose time becomes created_at, by which
// partitions are made and dropped.
func WithIDs(next func() (uuid.UUID, error)) Option {
	return func(c *config) error {
		if next == nil {
			return errors.New("the source of IDs is nil: give WithIDs a function")
		}
		c.newID = next
		return nil
	}
}

// intercept returns what the interceptors make of the events.
func (w *Writer) intercept(ctx context.Context, events []*Event) ([]*Event, error) {
	if len(w.chain) == 0 {
		return events, nil
	}
	copies := make([]*Event, len(events))
	for i, e := range events {
		if e == nil {
			return nil, w.check(i, e)
		}
		if err := w.fill(e); err != nil {
			return nil, err
		}
		c := *e
		c.Headers = maps.Clone(e.Headers)
		if w.copyPayloads {
			c.Payload = bytes.Clone(e.Payload)
		}
		copies[i] = &c
	}
	var err error
	for _, i := range w.chain {
		if copies, err = i(ctx, copies); err != nil {
			return nil, err
		}
	}
	return copies, nil
}

// observe calls the observers with the events of an append after its last INSERT.
func (w *Writer) observe(ctx context.Context, events []*Event) {
	if len(w.observers) == 0 {
		return
	}
	copied := slices.Clone(events) // the caller's stay on its stack
	for _, written := range w.observers {
		written(ctx, copied)
	}
}
