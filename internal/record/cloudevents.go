package record

import (
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// The headers that others read; see [Read].
const (
	headerID            = "ce_id"
	headerType          = "ce_type"
	headerAggregateType = "ce_aggregatetype"
	headerTenant        = "ce_tenant"
	headerSequence      = "ce_sequence"
	headerCommitTime    = "ce_committime"
)

// CloudEvents makes records in the binary content mode of CloudEvents. It is immutable.
type CloudEvents struct {
	first      []cdc.Header // of every record; the ID has no value yet
	attributes []attribute
	headers    outbox.Accessor
	payload    outbox.Accessor
	null       outbox.NullPayload

	sequence, commitTime []byte // names
}

// attribute is a part of an event that is a header.
type attribute struct {
	outbox.Accessor

	header   []byte
	role     outbox.Role
	required bool
}

// NewCloudEvents returns the encoder of a table. source is the ce_source of its records.
func NewCloudEvents(p *outbox.Plan, source []byte) *CloudEvents {
	c := &CloudEvents{
		first:    []cdc.Header{{Key: []byte(headerID)}, {Key: []byte("ce_specversion"), Value: []byte("1.0")}, {Key: []byte("ce_source"), Value: source}},
		headers:  p.Parts[outbox.Headers],
		payload:  p.Parts[outbox.Payload],
		sequence: []byte(headerSequence), commitTime: []byte(headerCommitTime),
		null: p.Null,
	}
	for _, a := range []struct {
		role   outbox.Role
		header string
	}{
		{outbox.EventType, headerType},
		{outbox.AggregateID, "ce_subject"},
		{outbox.OccurredAt, "ce_time"},
		{outbox.ContentType, outbox.HeaderContentType},
		{outbox.AggregateType, headerAggregateType},
		{outbox.TenantID, headerTenant},
		{outbox.SchemaID, "ce_dataschema"},
		{outbox.SchemaVersion, "ce_dataschemaversion"},
	} {
		if p.Parts[a.role].Exists() {
			c.attributes = append(c.attributes, attribute{p.Parts[a.role], []byte(a.header), a.role, p.Required[a.role]})
		}
	}
	return c
}

// Encode implements [Encoder].
func (c *CloudEvents) Encode(row *outbox.Row, id []byte, headers []cdc.Header) (value []byte, all []cdc.Header, f *outbox.Fault) {
	at := len(headers)
	headers = append(headers, c.first...)
	headers[at].Value = id
	for i := range c.attributes {
		a := &c.attributes[i]
		text, f := row.Text(&a.Accessor)
		if f == nil {
			f = a.check(text)
		}
		if f != nil {
			return nil, headers, f
		}
		if len(text) > 0 {
			headers = append(headers, cdc.Header{Key: a.header, Value: text})
		}
	}
	if sequence := row.Sequence(); sequence != nil {
		headers = append(headers, cdc.Header{Key: c.sequence, Value: sequence})
	}
	headers = append(headers, cdc.Header{Key: c.commitTime, Value: row.CommitTime()})
	if headers, f = appendMembers(headers, row, &c.headers); f != nil {
		return nil, headers, f
	}
	if value, f = row.Bytes(&c.payload); value == nil && f == nil {
		switch c.null {
		case outbox.NullMalformed:
			f = outbox.Bad(&c.payload, "is NULL")
		case outbox.NullEmpty:
			value = []byte{}
		case outbox.NullTombstone:
		}
	}
	return value, headers, f
}

// check returns a fault if text is not a valid value of the attribute.
func (a *attribute) check(text []byte) *outbox.Fault {
	switch {
	case a.required && text == nil:
		return outbox.Bad(&a.Accessor, "is NULL")
	case a.role == outbox.EventType && len(text) == 0:
		return outbox.Bad(&a.Accessor, "is empty")
	case a.role == outbox.OccurredAt && text != nil && !a.isTime(text):
		return outbox.Bad(&a.Accessor, "is not a time of the years 0 to 9999")
	default:
		return nil
	}
}

// isTime is false for infinity, years BC and years of five digits, which RFC 3339 cannot express. Text is
// parsed, because it may be any; for a timestamp the shape is enough.
func (a *attribute) isTime(text []byte) bool {
	if a.IsText() {
		_, err := time.Parse(time.RFC3339, string(text))
		return err == nil
	}
	return len(text) >= len("2006-01-02T15:04:05Z") && text[0] >= '0' && text[0] <= '9' &&
		text[4] == '-' && text[7] == '-' && text[10] == 'T'
}
