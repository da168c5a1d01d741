package record

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// Format is how an event stands in a record.
type Format string

// The formats.
const (
	// FormatCloudEvents is CloudEvents in binary content mode: the payload, and attributes as headers.
	FormatCloudEvents Format = "cloudevents"
	// FormatCloudEventsJSON is CloudEvents in structured content mode: one JSON object.
	FormatCloudEventsJSON Format = "cloudevents-json"
	// FormatPlain is the value, and the headers that are configured.
	FormatPlain Format = "plain"
)

// Shape says what the records of a table are made of. The zero Shape is that of the native table.
type Shape struct {
	// Format is [FormatCloudEvents] if it is "".
	Format Format
	// Value are the members of the JSON object that is the value; nil: the payload is the value.
	Value []Field
	// Confluent puts the wire format of Confluent's schema registry in front of the value: a zero byte, and [outbox.SchemaID] as four bytes.
	Confluent bool
	// Headers are headers besides those of the format, before Members.
	Headers []Field
	// Members says how the members of the JSON object in [outbox.Headers] become headers.
	Members Members
}

// Field is a part of an event under a name.
type Field struct {
	Name string
	outbox.Part
}

// Members says how members become headers. The zero value leaves them as they are.
type Members struct {
	// Rename has new names by those of members.
	Rename map[string]string
	// Drop are members that become no headers.
	Drop []string
	// Prefixed puts x_ before a name that another header has; without it the row is malformed.
	Prefixed bool
}

// Check returns the first error in the shape of a table with that layout, and the setting below the table's that it is about.
func (s *Shape) Check(l outbox.Layout) (setting string, err error) {
	const missing = "is missing"
	switch {
	case !l.Has(outbox.EventType) && s.Format != FormatPlain:
		return "columns.event_type", cdc.Fixable("name what it is made of, such as event_type, or use the format plain", missing)
	case !l.Has(outbox.Payload) && s.Value == nil:
		return "columns.payload", cdc.Fixable("name what it is made of, such as payload, or give a value", missing)
	case l.Foreign() && l.Has(outbox.Payload) && s.Value != nil:
		return "value", cdc.Fixable("keep one", "is set beside columns.payload")
	case s.Confluent && s.Format == FormatCloudEventsJSON:
		return "confluent_prefix", cdc.Fixable("use the format cloudevents or plain", "is set, and a record of the format cloudevents-json is JSON from its first byte on")
	case s.Confluent && !l.Has(outbox.SchemaID):
		return "columns.schema_id", cdc.Fixable("name what the number of the schema is made of", missing)
	case !l.Has(outbox.Headers) && (s.Members.Rename != nil || s.Members.Drop != nil):
		return "columns.headers", cdc.Fixable("name the column whose members are meant", missing)
	}
	if setting, err = checkFields("value", s.Value, outbox.Payload, nil); err == nil {
		setting, err = checkFields("headers", s.Headers, outbox.EventType, s.reserved)
	}
	if err == nil {
		setting, err = s.checkMembers()
	}
	return setting, err
}

// checkMembers refuses names that no member can get. Two may have one: a row has one spelling or the other.
func (s *Shape) checkMembers() (string, error) {
	for _, member := range slices.Sorted(maps.Keys(s.Members.Rename)) {
		name, setting := s.Members.Rename[member], "headers_rename."+member
		switch {
		case name == "":
			return setting, cdc.Fixable("give a name, or list it under headers_drop", "is empty")
		case s.reserved(name):
			return setting, cdc.Fixable("give another name, or use the format plain", "is a header of the relay's own")
		case slices.ContainsFunc(s.Headers, func(f Field) bool { return f.Name == name }):
			return setting, cdc.Fixable("give another name", "is the name of one of the headers")
		}
	}
	return "", nil
}

func checkFields(setting string, fields []Field, role outbox.Role, reserved func(name string) bool) (string, error) {
	for i, f := range fields {
		at := fmt.Sprintf("%s[%d]", setting, i)
		switch {
		case slices.ContainsFunc(fields[:i], func(other Field) bool { return other.Name == f.Name }):
			return at + ".name", cdc.Fixable("rename one", "is set twice")
		case reserved != nil && reserved(f.Name):
			return at + ".name", cdc.Fixable("rename it, or use the format plain", "is a header of the relay's own")
		}
		if err := f.Check(role); err != nil {
			return at, err
		}
	}
	return "", nil
}

// reserved reports whether the format has headers of such names.
func (s *Shape) reserved(name string) bool {
	return s.Format != FormatPlain && outbox.ReservedHeader(name)
}

// Columns returns the columns that the value and headers read, some of them twice.
func (s *Shape) Columns() []string {
	var columns []string
	for _, f := range slices.Concat(s.Value, s.Headers) {
		columns = append(columns, f.Columns()...)
	}
	return columns
}
