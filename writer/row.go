package writer

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"
)

const (
	// maxChunkBytes limits the memory of a statement in client and server. At this size the round trip no longer matters.
	maxChunkBytes = 4 << 20

	// rowOverhead is the approximate size of a row without its text, headers and payload.
	rowOverhead = 128
)

// row has the columns of one checked event. Each field is a column of the table. Empty text and zero numbers are stored as
// NULL.
type row struct {
	EventID       uuid.UUID // never zero
	AggregateType string    // never empty
	AggregateID   string    // never empty
	EventType     string    // never empty
	TenantID      string
	Topic         string
	PartitionKey  string
	ContentType   string // never empty
	SchemaID      string
	SchemaVersion int32
	Headers       string    // a JSON object of text values; "" is NULL
	Payload       []byte    // the event's own bytes; nil is NULL
	OccurredAt    time.Time // UTC, in whole microseconds
	CreatedAt     time.Time // UTC, in whole milliseconds; zero is the database's now()
}

// prepare calls the interceptors, checks the events, sets their IDs and times, and returns dst with their rows appended, and the
// events that they are of; with interceptors there may be more or fewer of them, or none. The rows share the events' payloads.
// An error is [ErrInvalidEvent], an interceptor's, or ctx's error if ctx has ended.
func (w *Writer) prepare(ctx context.Context, dst []row, events []*Event) ([]row, []*Event, error) {
	if err := ctx.Err(); err != nil {
		return dst, nil, fmt.Errorf("append events: %w", err)
	}
	events, err := w.intercept(ctx, events)
	if err != nil {
		return dst, nil, err
	}
	for i, e := range events {
		if err := w.check(i, e); err != nil {
			return dst, nil, err
		}
	}
	given := 0
	for _, e := range events {
		if e.ID != uuid.Nil {
			given++
		}
		if err := w.fill(e); err != nil {
			return dst, nil, err
		}
	}
	if given > 0 { // new IDs differ; an event that is passed twice counts as given
		if err := checkDistinct(events); err != nil {
			return dst, nil, err
		}
	}
	dst = slices.Grow(dst, len(events))
	for _, e := range events {
		dst = append(dst, rowOf(e))
	}
	return dst, events, nil
}

// fill sets what a retry must use again.
func (w *Writer) fill(e *Event) error {
	if e.ID == uuid.Nil {
		id, err := w.newID()
		if err != nil {
			return fmt.Errorf("make event id: %w", err)
		}
		e.ID = id
	}
	if e.OccurredAt.IsZero() {
		e.OccurredAt = w.now().UTC().Truncate(time.Microsecond)
	}
	return nil
}

func rowOf(e *Event) row {
	r := row{
		EventID: e.ID, AggregateType: e.AggregateType, AggregateID: e.AggregateID, EventType: e.Type,
		TenantID: e.TenantID, Topic: e.Topic, PartitionKey: e.PartitionKey,
		ContentType: e.ContentType, SchemaID: e.SchemaID, SchemaVersion: int32(e.SchemaVersion),
		Payload:    e.Payload,
		OccurredAt: e.OccurredAt.UTC().Truncate(time.Microsecond), // some drivers truncate and some round
		CreatedAt:  createdAt(e.ID),
	}
	if r.ContentType == "" {
		r.ContentType = contentTypeJSON
	}
	if len(e.Headers) > 0 {
		r.Headers = headersJSON(e.Headers)
	}
	return r
}

// createdAt returns the time in a UUIDv7 (RFC 9562, section 5.7: milliseconds since 1970 in the first 48 bits), or zero.
func createdAt(id uuid.UUID) time.Time {
	if id.Version() != 7 || id.Variant() != uuid.RFC4122 {
		return time.Time{}
	}
	var ms int64
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms).UTC()
}

// chunks splits rows, in order, into chunks for one statement each: at most maxRows rows and about 4 MiB, and at least one
// row.
func chunks(rows []row) iter.Seq[[]row] {
	return func(yield func([]row) bool) {
		for len(rows) > 0 {
			n, size := 1, rows[0].size()
			for n < len(rows) && n < maxRows {
				if size += rows[n].size(); size > maxChunkBytes {
					break
				}
				n++
			}
			if !yield(rows[:n]) {
				return
			}
			rows = rows[n:]
		}
	}
}

func (r *row) size() int {
	return rowOverhead + len(r.AggregateType) + len(r.AggregateID) + len(r.EventType) + len(r.TenantID) +
		len(r.Topic) + len(r.PartitionKey) + len(r.ContentType) + len(r.SchemaID) + len(r.Headers) + len(r.Payload)
}
