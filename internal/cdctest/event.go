package cdctest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Event is a row of the outbox as the application wrote it.
type Event struct {
	ID uuid.UUID
	// Topic is the topic column; "" is NULL.
	Topic string
	// Key is the aggregate ID, which is the record's key.
	Key string
	// Seq numbers the committed events of a key in commit order, from 1.
	Seq           int
	AggregateType string
	Type          string
	ContentType   string
	OccurredAt    time.Time // to the microsecond
	Headers       map[string]string
	// Payload starts with the key and the seq; see Payload.
	Payload []byte
}

// Payload returns an event's payload: its key, its seq, and padding up to size bytes.
func Payload(key string, seq, size int) []byte {
	b := fmt.Appendf(make([]byte, 0, size), "%s:%d:", key, seq)
	for len(b) < size {
		b = append(b, 'a'+byte(len(b)%26))
	}
	return b
}

// seqOf parses the seq in a payload.
func seqOf(payload []byte) (int, error) {
	parts := bytes.SplitN(payload, []byte(":"), 3)
	if len(parts) != 3 {
		return 0, fmt.Errorf("payload %.40q does not start with its key and seq", payload)
	}
	return strconv.Atoi(string(parts[1]))
}

// complete reads what a row has in its headers, which are JSON or nil, and in its payload.
func (e *Event) complete(headers []byte) (err error) {
	if headers != nil {
		if err := json.Unmarshal(headers, &e.Headers); err != nil {
			return fmt.Errorf("event %s: headers: %w", e.ID, err)
		}
	}
	if e.Seq, err = seqOf(e.Payload); err != nil {
		return fmt.Errorf("event %s: %w", e.ID, err)
	}
	return nil
}

// Digest is a hash of a value and headers.
type Digest [16]byte

type header struct {
	key   string
	value []byte
}

// digest does not depend on the order of the headers. It includes lengths, so that different fields never hash alike.
func digest(value []byte, headers []header) Digest {
	slices.SortFunc(headers, func(a, b header) int {
		return cmp.Or(cmp.Compare(a.key, b.key), bytes.Compare(a.value, b.value))
	})
	b := make([]byte, 0, 1024)
	add := func(n int) { b = binary.BigEndian.AppendUint64(b, uint64(n)) }
	if value == nil {
		b = append(b, "tombstone"...)
	}
	add(len(value))
	b = append(b, value...)
	for _, hd := range headers {
		add(len(hd.key))
		b = append(b, hd.key...)
		add(len(hd.value))
		b = append(b, hd.value...)
	}
	sum := sha256.Sum256(b)
	return Digest(sum[:16])
}

// content returns the digest of e's record, without the headers that depend on the position in the WAL or binlog. It
// follows the documentation of package router and shares no code with it. source is ce_source.
func (e *Event) content(source string) Digest {
	headers := []header{
		{"ce_id", []byte(e.ID.String())},
		{"ce_specversion", []byte("1.0")},
		{"ce_source", []byte(source)},
		{"ce_time", []byte(e.OccurredAt.UTC().Format("2006-01-02T15:04:05.999999Z07:00"))},
	}
	optional := func(key, value string) {
		if value != "" {
			headers = append(headers, header{key, []byte(value)})
		}
	}
	optional("ce_type", e.Type)
	optional("ce_subject", e.Key)
	optional("content-type", e.ContentType)
	optional("ce_aggregatetype", e.AggregateType)
	for key, value := range e.Headers {
		headers = append(headers, header{key, []byte(value)})
	}
	return digest(e.Payload, headers)
}
