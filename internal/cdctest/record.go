package cdctest

import (
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is what the checkers need of a record in Kafka.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	// Published is the record's timestamp, in milliseconds: when the relay first sent it.
	Published time.Time
	// Seen is when the reader read it.
	Seen    time.Time
	Key     string
	EventID uuid.UUID
	// Producer and Epoch are the batch's producer ID and epoch, which identify a run of the relay.
	Producer int64
	Epoch    int16
	// Place is ce_sequence, which sorts in commit order; "" if the source has none.
	Place string
	// Content is the digest of the value and of the headers that depend on the row alone, Whole that of value and all
	// headers.
	Content, Whole Digest
}

// recordOf parses a record of the default layout.
func recordOf(r *kgo.Record) (Record, error) {
	rec := Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Published: r.Timestamp, Key: string(r.Key),
		Producer: r.ProducerID, Epoch: r.ProducerEpoch,
	}
	content := make([]header, 0, len(r.Headers))
	whole := make([]header, 0, len(r.Headers))
	for _, h := range r.Headers {
		whole = append(whole, header{h.Key, h.Value})
		switch h.Key {
		case "ce_sequence":
			rec.Place = string(h.Value)
			continue
		case "ce_committime", "replayed_at":
			continue
		case "ce_id":
			id, err := uuid.ParseBytes(h.Value)
			if err != nil {
				return rec, fmt.Errorf("record %s[%d]@%d: ce_id %q: %w", r.Topic, r.Partition, r.Offset, h.Value, err)
			}
			rec.EventID = id
		}
		content = append(content, header{h.Key, h.Value})
	}
	if rec.EventID == uuid.Nil {
		return rec, fmt.Errorf("record %s[%d]@%d has no ce_id", r.Topic, r.Partition, r.Offset)
	}
	rec.Content, rec.Whole = digest(r.Value, content), digest(r.Value, whole)
	return rec, nil
}
