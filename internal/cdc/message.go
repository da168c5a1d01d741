package cdc

// Header is a record header. Its layout is that of sarama.RecordHeader, so a sink converts it without
// a copy.
type Header struct {
	Key   []byte
	Value []byte
}

// Message is one record to publish. All slices are read-only and stay valid until the [Routed] that
// holds the message is released.
type Message struct {
	Topic string
	// Key decides the partition; nil is a record without a key.
	Key []byte
	// Value nil is a tombstone.
	Value   []byte
	Headers []Header
	// Row is the row of the batch that the message was made from, for error messages.
	Row int32
}

// Drop is a row that the configuration says not to publish. The relay counts it and logs it.
type Drop struct {
	Row     int
	EventID string
	// Reason is "skip" for an id listed under errors.skip, else the policy's name ("unroutable").
	Reason string
	// Err says why in one sentence, for the log; nil for a listed id. It holds no payload.
	Err error
}

// Routed is a batch with the messages that the router made of it: at most one for each row, in row
// order. A Routed without messages still resolves: its batch's progress counts.
type Routed struct {
	Batch    *Batch
	Messages []Message
	// Drops lists the rows without a message, with the reason.
	Drops []Drop
	// LastEventID is the event id of the last message; "" when there are none.
	LastEventID string
	// Headers and Scratch back the messages' headers and rendered values. The router owns their use;
	// they are here so that one pool keeps all of it.
	Headers []Header
	Scratch []byte
}

// Seq is the batch's sequence number.
func (r *Routed) Seq() uint64 { return r.Batch.Seq }

// Reset empties r for use with another batch and keeps its memory.
func (r *Routed) Reset(b *Batch) {
	clear(r.Messages)
	clear(r.Headers)
	r.Batch, r.LastEventID = b, ""
	r.Messages, r.Drops, r.Headers, r.Scratch = r.Messages[:0], r.Drops[:0], r.Headers[:0], r.Scratch[:0]
}

// EventID returns a message's event id as its "ce_id" or "id" header carries it, for error messages;
// "" when it has none.
func (m *Message) EventID() string {
	for i := range m.Headers {
		if k := string(m.Headers[i].Key); k == "ce_id" || k == "id" {
			return string(m.Headers[i].Value)
		}
	}
	return ""
}

// Durable is a sink's answer for the batches First to Last, both included: one batch, or a commit group
// when the sink settles several at once.
type Durable struct {
	First, Last uint64
	// Err is final: no message behind the refused one in its partition was or will be sent. nil: every
	// message of these batches is durable, or was dropped by the configured policy and counted.
	Err error
}
