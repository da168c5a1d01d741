package writer

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// contentTypeJSON is what an event without a ContentType is taken to hold.
const contentTypeJSON = "application/json"

// Event is one row of the outbox and, once committed, one record.
//
// AggregateType, AggregateID and Type are required. Text must be valid UTF-8 without U+0000, which
// PostgreSQL does not store; on MySQL and MariaDB, but for headers and payload, it may have 255 characters.
// Optional text that is empty is stored as NULL.
type Event struct {
	// ID identifies the event for ever: consumers drop repeats by it. If it is zero, a UUIDv7 is made
	// and filled in. Any other UUID is taken as it is, a ULID's 16 bytes too.
	ID uuid.UUID

	// AggregateType names the kind of thing the event is about, for example "Order"; the relay's default
	// route makes the topic from it. See also [WithDefaultAggregateType].
	AggregateType string

	// AggregateID names the thing itself. It is the record's key unless PartitionKey is set, and order is
	// kept per key, so it is required.
	AggregateID string

	// Type says what happened, for example "OrderPlaced".
	Type string

	// TenantID is carried to the record, and routes can use it. Optional.
	TenantID string

	// Topic overrides the relay's routes. Optional.
	Topic string

	// PartitionKey is the record's key in place of AggregateID. Optional.
	PartitionKey string

	// ContentType is the payload's media type; empty means application/json.
	ContentType string

	// SchemaID names the payload's schema, for example a registry's subject or a URI. Optional.
	SchemaID string

	// SchemaVersion is the version of that schema: 1 to 2147483647, or 0 for none.
	SchemaVersion int

	// OccurredAt is when it happened, kept to the microsecond, in the years 1 to 9999. If it is zero, the
	// current time is filled in.
	OccurredAt time.Time

	// Headers become headers of the record as they are. Names that start with ce_ and the name
	// content-type are the relay's own, in any case of letters.
	Headers map[string]string

	// Payload becomes the value of the record, byte for byte. Empty and nil differ: nil is an error
	// unless Tombstone is set.
	Payload []byte

	// Tombstone says that Payload is nil on purpose: the record has a null value, which deletes its key
	// from a compacted topic.
	Tombstone bool
}

// JSON returns an event whose payload is v, encoded by encoding/json. The other fields are the caller's to
// set. An error is [ErrInvalidEvent] and says what could not be encoded.
func JSON(aggregateType, aggregateID, typ string, v any) (*Event, error) {
	payload, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%w: encode payload of %q as JSON: %w", ErrInvalidEvent, typ, err)
	}
	return &Event{
		AggregateType: aggregateType,
		AggregateID:   aggregateID,
		Type:          typ,
		ContentType:   contentTypeJSON,
		Payload:       payload,
	}, nil
}
