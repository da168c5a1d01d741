package record

import (
	"bytes"
	"encoding/base64"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// mediaTypeJSON is that of a CloudEvent in structured content mode (Kafka protocol binding for CloudEvents 1.0.2, section 3.3).
const mediaTypeJSON = "application/cloudevents+json"

// structured makes records in the structured content mode of CloudEvents: the value is a JSON object with the attributes, and with the data if
// the payload has a byte. A tombstone has no value, so that it is in binary content mode.
type structured struct {
	*cloudEvents

	contentType cdc.Header
}

func newStructured(c content, p *outbox.Plan, source []byte) *structured {
	return &structured{newCloudEvents(c, p, source), cdc.Header{Key: []byte(outbox.HeaderContentType), Value: []byte(mediaTypeJSON + "; charset=UTF-8")}}
}

// Payload implements [Encoder].
func (*structured) Payload() int { return -1 }

// Encode implements [Encoder].
func (s *structured) Encode(row *outbox.Row, id []byte, headers []cdc.Header) (value []byte, all []cdc.Header, f *outbox.Fault) {
	var payload []byte
	hasData := s.value.fields != nil
	if !hasData {
		if payload, f = s.value.of(row); f != nil {
			return nil, headers, f
		}
		if payload == nil {
			return s.cloudEvents.Encode(row, id, headers)
		}
		hasData = len(payload) > 0
	}
	first := len(headers)
	if headers, f = s.appendAttributes(headers, row, id); f != nil {
		return nil, headers, f
	}
	var contentType []byte
	draft := row.Draft[:0]
	for i, h := range headers[first:] {
		draft = append(draft, "{,"[min(i, 1)], '"')
		if name, isAttribute := bytes.CutPrefix(h.Key, []byte(outbox.HeaderPrefix)); isAttribute {
			draft = append(draft, name...)
		} else {
			draft, contentType = append(draft, "datacontenttype"...), h.Value
		}
		draft, _ = jsontext.AppendQuote(append(draft, `":`...), h.Value)
	}
	clear(headers[first:])
	if hasData {
		draft = append(draft, ',')
		if draft, f = s.appendData(draft, row, contentType, payload); f != nil {
			return nil, headers[:first], f
		}
	}
	draft = append(draft, '}')
	row.Draft = draft
	value = row.Keep()
	headers = append(headers[:first], s.contentType)
	headers, f = s.headers.append(headers, row)
	return value, headers, f
}

// appendData appends the member that holds the data: the payload, unless it is an object of parts.
func (s *structured) appendData(dst []byte, row *outbox.Row, contentType, payload []byte) ([]byte, *outbox.Fault) {
	const data = `"data":`
	a := &s.value.payload
	switch {
	case s.value.fields != nil:
		return s.value.appendObject(append(dst, data...), row)
	case a.Content() != outbox.ContentJSON && isJSON(contentType):
		if !row.IsJSON(payload) {
			return dst, outbox.Bad(a, "is not JSON, which the content type says")
		}
		return append(append(dst, data...), payload...), nil
	case a.Content() == outbox.ContentBytes:
		return append(base64.StdEncoding.AppendEncode(append(dst, `"data_base64":"`...), payload), '"'), nil
	default:
		return row.AppendJSON(append(dst, data...), a)
	}
}

// isJSON reports whether a media type is that of JSON (JSON event format for CloudEvents 1.0.2, section 3.1).
func isJSON(mediaType []byte) bool {
	mediaType, _, _ = bytes.Cut(mediaType, []byte{';'})
	mediaType = bytes.TrimSpace(mediaType)
	const suffix = len("/json")
	if len(mediaType) < suffix {
		return false
	}
	end := mediaType[len(mediaType)-suffix:]
	return (end[0] == '/' || end[0] == '+') && bytes.EqualFold(end[1:], []byte("json"))
}
