package writertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/writer"
)

// maxShown is how many bytes of a payload a failure shows.
const maxShown = 1000

// Match says which event is wanted. Fields that are not set are not compared.
type Match struct {
	Type, AggregateType, AggregateID, TenantID, Topic string

	// Key is the event's PartitionKey.
	Key string

	// Headers are those that the event must have; it may have others.
	Headers map[string]string

	// Payload is the whole payload. []byte, string and json.RawMessage are compared as JSON if they and the event's payload
	// are valid JSON, else byte for byte. Other values are encoded as JSON first.
	Payload any
}

// String returns the fields that are set.
func (m Match) String() string {
	var set []string
	for _, f := range m.texts(&writer.Event{}) {
		if f.want != "" {
			set = append(set, fmt.Sprintf("%s: %q", f.name, f.want))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		set = append(set, fmt.Sprintf("Headers[%q]: %q", name, m.Headers[name]))
	}
	if m.Payload != nil {
		set = append(set, "Payload: "+short(encode(m.Payload)))
	}
	return "{" + strings.Join(set, ", ") + "}"
}

type text struct{ name, have, want string }

func (m Match) texts(e *writer.Event) []text {
	return []text{
		{"Type", e.Type, m.Type},
		{"AggregateType", e.AggregateType, m.AggregateType},
		{"AggregateID", e.AggregateID, m.AggregateID},
		{"TenantID", e.TenantID, m.TenantID},
		{"Topic", e.Topic, m.Topic},
		{"Key", e.PartitionKey, m.Key},
	}
}

// diff returns the fields in which the event differs, a line each.
func (m Match) diff(e *writer.Event) (lines []string) {
	for _, f := range m.texts(e) {
		if f.want != "" && f.have != f.want {
			lines = append(lines, fmt.Sprintf("%s: %q, want %q", f.name, f.have, f.want))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		have, ok := e.Headers[name]
		switch {
		case !ok:
			lines = append(lines, fmt.Sprintf("Headers[%q]: missing, want %q", name, m.Headers[name]))
		case have != m.Headers[name]:
			lines = append(lines, fmt.Sprintf("Headers[%q]: %q, want %q", name, have, m.Headers[name]))
		}
	}
	if m.Payload != nil && !samePayload(e.Payload, encode(m.Payload)) {
		lines = append(lines, fmt.Sprintf("Payload: %s, want %s", short(e.Payload), short(encode(m.Payload))))
	}
	return lines
}

func encode(payload any) []byte {
	switch p := payload.(type) {
	case []byte:
		return p
	case json.RawMessage:
		return p
	case string:
		return []byte(p)
	}
	encoded, err := json.Marshal(payload)
	if err != nil {
		return fmt.Appendf(nil, "(%v)", err)
	}
	return encoded
}

func samePayload(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err := decode(a)
	if err != nil {
		return false
	}
	y, err := decode(b)
	return err == nil && reflect.DeepEqual(x, y)
}

// decode keeps the digits of numbers, which float64 would round.
func decode(payload []byte) (v any, err error) {
	if !json.Valid(payload) {
		return nil, fmt.Errorf("decode payload: not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// short returns a payload for a failure.
func short(payload []byte) string {
	if len(payload) > maxShown {
		return fmt.Sprintf("%s... (%d bytes)", payload[:maxShown], len(payload))
	}
	return string(payload)
}
