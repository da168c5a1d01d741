package record

import (
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// The headers that others read; see [Read].
const (
	headerID            = "ce_id"
	headerSpecVersion   = "ce_specversion"
	headerType          = "ce_type"
	headerAggregateType = "ce_aggregatetype"
	headerTenant        = "ce_tenant"
	headerSequence      = "ce_sequence"
	headerCommitTime    = "ce_committime"
)

// cloudEvents makes records in the binary content mode of CloudEvents.
type cloudEvents struct {
	content

	first      []cdc.Header // of every record; the ID has no value yet
	attributes []attribute

	sequence, commitTime []byte // names
}

// attribute is a part of an event that is a header.
type attribute struct {
	outbox.Accessor

	header   []byte
	role     outbox.Role
	required bool
}

func newCloudEvents(c content, p *outbox.Plan, source []byte) *cloudEvents {
	return &cloudEvents{
		content:    c,
		first:      []cdc.Header{{Key: []byte(headerID)}, {Key: []byte(headerSpecVersion), Value: []byte("1.0")}, {Key: []byte("ce_source"), Value: source}},
		attributes: newAttributes(p),
		sequence:   []byte(headerSequence), commitTime: []byte(headerCommitTime),
	}
}

// newAttributes are the attributes of a table's events in the order of the headers.
func newAttributes(p *outbox.Plan) []attribute {
	var all []attribute
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
			all = append(all, attribute{p.Parts[a.role], []byte(a.header), a.role, p.Required[a.role]})
		}
	}
	return all
}

// Encode implements [Encoder].
func (c *cloudEvents) Encode(row *outbox.Row, id []byte, headers []cdc.Header) (value []byte, all []cdc.Header, f *outbox.Fault) {
	if headers, f = c.appendAttributes(headers, row, id); f != nil {
		return nil, headers, f
	}
	return c.content.Encode(row, id, headers)
}

func (c *cloudEvents) appendAttributes(headers []cdc.Header, row *outbox.Row, id []byte) ([]cdc.Header, *outbox.Fault) {
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
			return headers, f
		}
		if len(text) > 0 {
			headers = append(headers, cdc.Header{Key: a.header, Value: text})
		}
	}
	if sequence := row.Sequence(); sequence != nil {
		headers = append(headers, cdc.Header{Key: c.sequence, Value: sequence})
	}
	if row.Tx().Time != 0 { // 0 is not known, of a row that was read by SQL
		headers = append(headers, cdc.Header{Key: c.commitTime, Value: row.CommitTime()})
	}
	return headers, nil
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

// isTime is false for infinity, years BC and years of five digits, which RFC 3339 cannot express, and for days that MySQL takes and no
// calendar has, such as 0000-00-00. Text is parsed, because it may be any; of a timestamp only the shape and the day.
func (a *attribute) isTime(text []byte) bool {
	if a.IsText() {
		_, err := time.Parse(time.RFC3339, string(text))
		return err == nil
	}
	return len(text) >= len("2006-01-02T15:04:05Z") && text[0] >= '0' && text[0] <= '9' &&
		text[4] == '-' && text[7] == '-' && text[10] == 'T' && isDay(number(text[:4]), number(text[5:7]), number(text[8:10]))
}

func isDay(year, month, day int) bool {
	if month == 0 || day <= 28 {
		return month != 0 && day != 0
	}
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Day() == day
}

// number reads digits.
func number(digits []byte) (n int) {
	for _, c := range digits {
		n = 10*n + int(c-'0')
	}
	return n
}
