package cdc

// Header is a record header.
type Header struct {
	Key   []byte
	Value []byte
}

// Message is a record to publish. All slices are read-only and valid until the batch is released.
type Message struct {
	// ID is the event's, which consumers deduplicate on, byte for byte; nil for a record of the relay's own.
	ID    []byte
	Topic string
	// Key decides the partition, unless Partition does; nil means no key.
	Key []byte
	// Value is the payload; nil is a tombstone.
	Value   []byte
	Headers []Header
	// Row is the index of the row in the batch, for error messages.
	Row int32
	// Partition is one more than the partition, of which the topic may have fewer; 0: the key decides.
	Partition int32
}

// Drop is a row that is not published because of the configuration. The relay counts and logs it.
type Drop struct {
	Row     int
	EventID string
	// Key and Topic are those of the record, as far as they can be read.
	Key   []byte
	Topic string
	// Reason is "skip" for an ID in errors.skip, otherwise the setting under errors ("unroutable").
	Reason string
	// Err is the cause, for the log; nil for an ID in errors.skip. It contains no payload.
	Err error
}

// Refused is a row that makes no record, for the dead letters. Its slices are read-only and valid until the batch is released.
type Refused struct {
	Row int32
	// Reason is the setting under errors: "unroutable" or "malformed".
	Reason string
	// Err is the cause. It contains no payload.
	Err error
	// EventID and Key could be read of the row; nil for NULL, an absent column, or a value that cannot be read.
	EventID, Key []byte
}

// Described is what a row says of its event, for people; nil is as in [Refused].
type Described struct{ Type, AggregateType, Tenant []byte }

// Describer reads rows of a batch. It may be called from any goroutine until the batch is released.
type Describer interface {
	Describe(b *Batch, row int) Described
}

// Routed is a batch with its messages, at most one for each row, in row order. A Routed without messages becomes durable
// too, and advances the position.
type Routed struct {
	Batch    *Batch
	Messages []Message
	// Drops lists the rows without a message, with the reason.
	Drops []Drop
	// Refused lists the rows that go to the dead letters, in row order.
	Refused []Refused
	// LeftOut is how many rows are not to be published, because a condition of their table says so.
	LeftOut int
	// Payload is the index of the payload's column, or -1.
	Payload int
	// Describer reads the batch's rows; nil: nobody routed them.
	Describer Describer
	// LastEventID is the event ID of the last message; "" if there are none.
	LastEventID string
	// Headers and Scratch are the memory of the messages' headers and rendered values, for the router. They are here so
	// that they are pooled together.
	Headers []Header
	Scratch []byte
}

// Seq returns the batch's sequence number.
func (r *Routed) Seq() uint64 { return r.Batch.Seq }

// Reset empties r for another batch and keeps its memory.
func (r *Routed) Reset(b *Batch) {
	clear(r.Messages)
	clear(r.Headers)
	r.Batch, r.LastEventID = b, ""
	r.Messages, r.Drops, r.Headers, r.Scratch = r.Messages[:0], r.Drops[:0], r.Headers[:0], r.Scratch[:0]
	r.Refused, r.LeftOut, r.Payload, r.Describer = nil, 0, -1, nil
}

// EventID returns the event's ID for error messages; see [KeyText].
func (m *Message) EventID() string { return KeyText(m.ID) }

// Durable is a sink's result for the batches First to Last, inclusive.
type Durable struct {
	First, Last uint64
	// Err is final: no message behind the rejected one in its partition was or will be sent. nil means that every message of
	// these batches is durable, or was dropped by the configured policy and counted.
	Err error
	// Cut says that everything sent so far is acknowledged, and that nothing more is sent before it is committed with its
	// position. The answer has no batch: First is behind Last.
	Cut bool
}
