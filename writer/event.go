package writer

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// contentTypeJSON is the default ContentType.
const contentTypeJSON = "application/json"

// Event is one row of the outbox table and, after the commit, one Kafka record.
//
// AggregateType, AggregateID and Type are required. Text must be valid UTF-8 without U+0000, which PostgreSQL cannot
// store. On MySQL and MariaDB text other than headers and payload is limited to 255 characters. Empty optional text is
// stored as NULL.
//
// Without an ID it gets a UUIDv7 that is greater than all made before in this process, and without OccurredAt the current time, when it
// is appended. Appended again in a retried transaction it is the same event, and consumers can drop repeats by its ID. The column
// created_at is set from the time inside a version 7 ID; for other IDs it is the database's now(). An event that is already in the table
// is [ErrDuplicate], unless [WithOnDuplicate] says to skip it.
type Event struct {
	// ID identifies the event permanently; consumers drop repeats by it. If it is zero, Append sets it to a new UUIDv7.
	// Any other UUID is used unchanged, including the 16 bytes of a ULID.
	ID uuid.UUID

	// AggregateType is the type of the entity that the event is about, for example "Order"; routes can build the
	// topic from it.
	AggregateType string

	// AggregateID is the ID of the entity. It is the record key unless PartitionKey is set. Required, because order is
	// kept per key.
	AggregateID string

	// Type is the type of the event, for example "OrderPlaced".
	Type string

	// TenantID becomes a record header, and routes can use it. Optional.
	TenantID string

	// Topic overrides the relay's routes. Optional.
	Topic string

	// PartitionKey replaces AggregateID as the record key. Optional.
	PartitionKey string

	// ContentType is the payload's media type; empty means application/json.
	ContentType string

	// SchemaID names the payload's schema, for example a registry's subject or a URI. Optional.
	SchemaID string

	// SchemaVersion is the version of that schema: 1 to 2147483647, or 0 for none.
	SchemaVersion int

	// OccurredAt is when the event happened, with microsecond precision, in the years 1 to 9999. If it is zero, Append
	// sets it to the current time.
	OccurredAt time.Time

	// Headers become record headers unchanged. Names that start with ce_ and the name content-type are reserved for the
	// relay, in upper and lower case.
	Headers map[string]string

	// Payload becomes the record value, byte for byte. It may be empty; nil is an error unless Tombstone is set.
	Payload []byte

	// Tombstone marks an event without a payload: the record has a null value, which deletes its key from a compacted
	// topic.
	Tombstone bool
}

// JSON returns an event with v as payload, encoded by encoding/json. The types may be of named string types, so that
// they can be constants of their own. Set the other fields on the result. The error is an [ErrInvalidEvent] that says
// what could not be encoded.
func JSON[A, T ~string](aggregateType A, aggregateID string, typ T, v any) (*Event, error) {
	payload, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%w: encode payload of %q as JSON: %w", ErrInvalidEvent, string(typ), err)
	}
	return &Event{
		AggregateType: string(aggregateType),
		AggregateID:   aggregateID,
		Type:          string(typ),
		ContentType:   contentTypeJSON,
		Payload:       payload,
	}, nil
}
