package outbox

import (
	"encoding/base64"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Content is what a value is in JSON.
type Content uint8

// The contents.
const (
	// ContentText is a string.
	ContentText Content = iota
	// ContentBytes is a string with base64.
	ContentBytes
	// ContentJSON stands in JSON as it is.
	ContentJSON
)

// Content returns what the values are in JSON. The type of the column decides, not a value.
func (a *Accessor) Content() Content {
	switch {
	case a.kind == kindJSON:
		return ContentJSON
	case a.kind != kindColumn:
		return ContentText
	case a.encoding != "":
		return ContentBytes
	}
	switch a.typ {
	case cdc.TypeBytes:
		return ContentBytes
	case cdc.TypeJSON, cdc.TypeBool, cdc.TypeInteger, cdc.TypeDecimal, cdc.TypeFloat:
		return ContentJSON
	default:
		return ContentText
	}
}

// AppendJSON appends a value as JSON to dst, which must not be part of Scratch; null for NULL.
func (r *Row) AppendJSON(dst []byte, a *Accessor) ([]byte, *Fault) {
	switch a.Content() {
	case ContentBytes:
		value, f := r.Bytes(a)
		if value == nil {
			return append(dst, "null"...), f
		}
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), value), '"'), nil
	case ContentJSON:
		return r.appendValue(dst, a)
	default:
		text, f := r.Text(a)
		return appendString(dst, text), f
	}
}

// appendValue appends what is JSON already. A number that JSON does not have (NaN, 007) becomes a string.
func (r *Row) appendValue(dst []byte, a *Accessor) ([]byte, *Fault) {
	if a.kind == kindJSON {
		value, f := r.json(a)
		if value == nil {
			value = []byte("null")
		}
		return append(dst, value...), f
	}
	text, f := r.Text(a)
	if text == nil || a.typ != cdc.TypeJSON && a.typ != cdc.TypeBool && !r.IsJSON(text) {
		return appendString(dst, text), f
	}
	return append(dst, text...), f
}

// IsJSON reports whether a text is a JSON value, as a document has to be: names may stand twice, and an escape may be half a surrogate.
func (r *Row) IsJSON(text []byte) bool {
	whole := document{root: node{value: -1}}
	return ValidText(text) && r.checker.read(&whole, text) == nil
}

// appendString appends valid UTF-8 as a string; null for nil.
func appendString(dst, text []byte) []byte {
	if text == nil {
		return append(dst, "null"...)
	}
	dst, _ = jsontext.AppendQuote(dst, text)
	return dst
}

// Keep moves Draft to Scratch and returns it.
func (r *Row) Keep() []byte {
	start := len(r.Scratch)
	r.Scratch = append(r.Scratch, r.Draft...)
	r.Draft = r.Draft[:0]
	return r.cut(start)
}
