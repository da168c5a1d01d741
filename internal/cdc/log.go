package cdc

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
)

// EventAttr names an event in a log line: event_id, key and topic, without those that are "".
func EventAttr(id string, key []byte, topic string) slog.Attr {
	attrs := make([]slog.Attr, 0, 3)
	for _, a := range []slog.Attr{slog.String("event_id", KeyText([]byte(id))), slog.String("key", KeyText(key)), slog.String("topic", topic)} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	return slog.GroupAttrs("", attrs...)
}

// MaxKeyText is the longest key that KeyText returns as it is.
const MaxKeyText = 256

// KeyText is a record's key, or an event's ID, for people: its bytes, or their SHA-256 if that is shorter.
func KeyText(key []byte) string {
	if len(key) <= MaxKeyText {
		return string(key)
	}
	sum := sha256.Sum256(key)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Repeats marks a log line that a lasting fault writes again and again. The logger limits lines with the same message,
// table, topic and reason. Other handlers do not show the mark.
func Repeats() slog.Attr { return slog.Any("repeats", repeats{}) }

type repeats struct{}

// LogValue returns an empty group, which handlers leave out.
func (repeats) LogValue() slog.Value { return slog.GroupValue() }

// IsRepeats reports whether a is the mark.
func IsRepeats(a slog.Attr) bool {
	_, ok := a.Value.Any().(repeats)
	return ok
}
