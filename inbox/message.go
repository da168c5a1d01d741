package inbox

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"
)

// Message is a record of a topic. The inbox does not change it, and keeps it only while it is handled.
type Message struct {
	// Source and ID together are unique (CloudEvents: source and id), and both are required. The relay sends them as
	// ce_source and ce_id. They are at most MaxSource and MaxID bytes.
	Source, ID string

	// From the record's CloudEvents attributes; empty if it has none.
	Type, AggregateType, Subject, TenantID string
	Time                                   time.Time

	// Invalid says what is wrong with one of these attributes, which is empty then. [Registry.Handle] fails with it, and another
	// attempt cannot help.
	Invalid string `json:",omitempty"`

	Topic     string
	Partition int32
	Offset    int64

	// Attempt counts from 1 how often the message was given to a handler by this process; 0 outside of a consumer.
	Attempt int

	// Key is nil if the record has none. A nil Value is a tombstone.
	Key, Value []byte
	Headers    []Header
}

// Header is a header of a record. Keys may repeat.
type Header struct {
	Key   string
	Value []byte
}

// MessageID identifies a message: an ID is unique within its source only.
type MessageID struct{ Source, ID string }

// The limits are those of the table's columns on MySQL and MariaDB.
const (
	MaxConsumer = 128 // bytes of a consumer's name
	MaxSource   = 512 // bytes of a source
	MaxID       = 255 // bytes of an ID
)

// Header returns the first header with this key.
func (m *Message) Header(key string) (value []byte, ok bool) {
	for _, h := range m.Headers {
		if h.Key == key {
			return h.Value, true
		}
	}
	return nil, false
}

// place names the record in errors.
func (m *Message) place() string {
	if m.Topic == "" {
		return "message"
	}
	return fmt.Sprintf("record %s[%d]@%d", m.Topic, m.Partition, m.Offset)
}

// identify returns what the table's key holds of the message, checked.
func (m *Message) identify(source func(*Message) string) (MessageID, error) {
	id := MessageID{Source: m.Source, ID: m.ID}
	if source != nil {
		var err error
		if id.Source, err = sourceOf(m, source); err != nil {
			return id, err
		}
	}
	if err := id.check(); err != nil {
		return id, fmt.Errorf("%s: %w", m.place(), err)
	}
	return id, nil
}

// sourceOf turns a panic into an error: [Inbox.Handle] is not the only caller, and a consumer's others do not recover.
func sourceOf(m *Message, source func(*Message) string) (s string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%s: %w: the function given to WithSource: %w", m.place(), ErrInvalidMessage, &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	return source(m), nil
}

func (id MessageID) check() error {
	const missing = "set it; records of cdc-relay have the headers ce_source and ce_id"
	if err := checkText("source", id.Source, MaxSource, missing); err != nil {
		return err
	}
	return checkText("ID", id.ID, MaxID, missing)
}

// checkText refuses what the databases would refuse, or store as something else; missing is the fix for an empty text.
func checkText(what, s string, limit int, missing string) error {
	switch {
	case s == "":
		return &InvalidError{What: what, Reason: "is empty", Fix: missing}
	case len(s) > limit:
		return &InvalidError{
			What: what, Reason: fmt.Sprintf("has %d bytes, the limit is %d", len(s), limit),
			Fix: "shorten it, for example to its hash; it is never cut off, because two could become one",
		}
	case strings.ContainsRune(s, 0):
		return &InvalidError{What: what, Reason: "has a NUL byte", Fix: "encode it as text, for example as hexadecimal digits"}
	case !utf8.ValidString(s):
		return &InvalidError{What: what, Reason: "is not UTF-8", Fix: "encode it as text, for example as hexadecimal digits"}
	}
	return nil
}

// ReadCloudEvents sets the message's attributes from the headers of the CloudEvents Kafka binding in binary content mode,
// which cdc-relay sends. A header that is missing or occurs twice leaves its attribute empty. A second source or ID is an
// [ErrInvalidMessage]: the message cannot be recorded, unless both come from elsewhere. What is wrong with another attribute is
// in m.Invalid. Source and ID are checked when the message is recorded.
func (m *Message) ReadCloudEvents() error {
	var at string
	var errs [2]error
	m.Source, errs[0] = m.single("ce_source")
	m.ID, errs[1] = m.single("ce_id")
	for _, a := range []struct {
		key string
		to  *string
	}{
		{"ce_type", &m.Type},
		{"ce_aggregatetype", &m.AggregateType},
		{"ce_subject", &m.Subject},
		{"ce_tenant", &m.TenantID},
		{"ce_time", &at},
	} {
		var err error
		if *a.to, err = m.single(a.key); err != nil {
			m.Invalid = err.Error()
		}
	}
	if at != "" {
		t, err := time.Parse(time.RFC3339Nano, at)
		if err == nil {
			_, err = t.MarshalText() // stricter than Parse, and a parked message is stored with it
		}
		if err != nil {
			m.Invalid = (&InvalidError{What: "header ce_time", Reason: "is not a time of RFC 3339", Fix: "correct its producer"}).Error()
		} else {
			m.Time = t
		}
	}
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("%s: %w", m.place(), err)
	}
	return nil
}

// single returns the only header with this key, "" if there is none.
func (m *Message) single(key string) (value string, err error) {
	found := false
	for _, h := range m.Headers {
		if h.Key != key {
			continue
		}
		if found {
			return "", &InvalidError{What: "header " + key, Reason: "occurs twice", Fix: "correct its producer, or read it from another header"}
		}
		value, found = string(h.Value), true
	}
	return value, nil
}
