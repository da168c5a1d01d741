package record

import (
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// Encoder makes the records of a table in one format. It is immutable.
type Encoder interface {
	// Encode returns the value of the record of an event with that ID, and headers with those of the record appended. They point into the
	// row's batch, its scratch and the encoder. With a fault, what was appended is of no use. It never blocks.
	Encode(row *outbox.Row, id []byte, headers []cdc.Header) (value []byte, all []cdc.Header, f *outbox.Fault)
	// Payload is the index of the column whose bytes are the value; -1 if there is none.
	Payload() int
}

// New returns the encoder of a table. setting is the table's place in the configuration ("tables[0]"), and source the ce_source of its
// records. An error is a [cdc.StopError] about the table or the configuration.
func New(s *Shape, p *outbox.Plan, setting string, source []byte) (Encoder, error) {
	c := content{headers: headers{
		members: p.Parts[outbox.Headers], how: s.Members, rename: make(map[string][]byte, len(s.Members.Rename)), own: s.Format != FormatPlain,
	}}
	for member, name := range s.Members.Rename {
		c.headers.rename[member] = []byte(name)
	}
	var err error
	if c.headers.fields, err = newFields(s.Headers, p, setting+".headers"); err != nil {
		return nil, err
	}
	c.value = value{payload: p.Parts[outbox.Payload], null: p.Null}
	if s.Confluent {
		c.value.schema = &p.Parts[outbox.SchemaID]
	}
	if c.value.fields, err = newFields(s.Value, p, setting+".value"); err != nil {
		return nil, err
	}
	switch s.Format {
	case FormatPlain:
		return &c, nil
	case FormatCloudEventsJSON:
		return newStructured(c, p, source), nil
	default:
		return newCloudEvents(c, p, source), nil
	}
}

// content is what all formats have: the user's value and headers. Alone it makes records of the format plain.
type content struct {
	value   value
	headers headers
}

// Payload implements [Encoder].
func (c *content) Payload() int {
	if c.value.fields != nil || c.value.schema != nil {
		return -1
	}
	return c.value.payload.Index()
}

// Encode implements [Encoder].
func (c *content) Encode(row *outbox.Row, _ []byte, headers []cdc.Header) (value []byte, all []cdc.Header, f *outbox.Fault) {
	if headers, f = c.headers.append(headers, row); f != nil {
		return nil, headers, f
	}
	value, f = c.value.of(row)
	return value, headers, f
}

// field is a part under a name.
type field struct {
	outbox.Accessor

	name []byte
}

func newFields(fields []Field, p *outbox.Plan, setting string) ([]field, error) {
	var all []field
	for i := range fields {
		a, err := p.Need(&fields[i].Part, fmt.Sprintf("%s[%d]", setting, i))
		if err != nil {
			return nil, err
		}
		all = append(all, field{a, []byte(fields[i].Name)})
	}
	return all, nil
}
