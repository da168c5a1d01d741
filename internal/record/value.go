package record

import (
	"encoding/binary"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// value is the payload, or a JSON object of several parts.
type value struct {
	payload outbox.Accessor
	null    outbox.NullPayload
	fields  []field          // of the object; nil: the payload
	schema  *outbox.Accessor // the number of the schema in front of it; nil: nothing is
}

// of returns the row's value, nil for a tombstone.
func (v *value) of(row *outbox.Row) ([]byte, *outbox.Fault) {
	value, f := v.bare(row)
	if v.schema == nil || value == nil || f != nil {
		return value, f
	}
	id, f := row.Text(v.schema)
	if f != nil {
		return nil, f
	}
	number, err := strconv.ParseUint(string(id), 10, 31) // a Java int
	if err != nil {
		return nil, outbox.Bad(v.schema, "is no number of a schema, 0 to 2147483647")
	}
	row.Draft = append(binary.BigEndian.AppendUint32(append(row.Draft[:0], 0), uint32(number)), value...)
	return row.Keep(), nil
}

// bare returns the value with nothing in front of it.
func (v *value) bare(row *outbox.Row) ([]byte, *outbox.Fault) {
	if v.fields != nil {
		var f *outbox.Fault
		if row.Draft, f = v.appendObject(row.Draft[:0], row); f != nil {
			return nil, f
		}
		return row.Keep(), nil
	}
	value, f := row.Bytes(&v.payload)
	if value != nil || f != nil {
		return value, f
	}
	switch v.null {
	case outbox.NullMalformed:
		return nil, outbox.Bad(&v.payload, "is NULL").Or("set null_payload of the table to tombstone or empty")
	case outbox.NullEmpty:
		return []byte{}, nil
	default:
		return nil, nil
	}
}

func (v *value) appendObject(dst []byte, row *outbox.Row) ([]byte, *outbox.Fault) {
	dst = append(dst, '{')
	for i := range v.fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst, _ = jsontext.AppendQuote(dst, v.fields[i].name)
		var f *outbox.Fault
		if dst, f = row.AppendJSON(append(dst, ':'), &v.fields[i].Accessor); f != nil {
			return dst, f
		}
	}
	return append(dst, '}'), nil
}
