package record

import (
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// Encoder makes the records of a table in one format.
type Encoder interface {
	// Encode returns the value of the record of an event with that ID, and headers with those of the record appended. They point into the
	// row's batch, its scratch and the encoder. With a fault, what was appended is of no use. It never blocks.
	Encode(row *outbox.Row, id []byte, headers []cdc.Header) (value []byte, all []cdc.Header, f *outbox.Fault)
}
