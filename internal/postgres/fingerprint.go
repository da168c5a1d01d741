package postgres

import (
	"fmt"
	"net/url"
)

// Fingerprint tells two states of a publication apart: for it and for each tracked table, oid and xmin of
// the catalog rows by which rows are published. They change also when a table was taken out and put back,
// which loses the inserts in between without an error anywhere.
type Fingerprint map[string]string

// ofPublication is the publication's own key; the others are tables, whose names hold a dot.
const ofPublication = "publication"

// String is how a checkpoint keeps it: "public.outbox=16402+743&publication=16385+742".
func (f Fingerprint) String() string {
	values := url.Values{}
	for name, rows := range f {
		values.Set(name, rows)
	}
	return values.Encode()
}

// ParseFingerprint reads what String returns.
func ParseFingerprint(text string) (Fingerprint, error) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, fmt.Errorf("checkpoint's fingerprint of the publication: %w", err)
	}
	f := Fingerprint{}
	for name := range values {
		f[name] = values.Get(name)
	}
	return f, nil
}

// Changed reports whether what f knew is not so any more. A table that is tracked only since is no change,
// nor is one that is not tracked any more.
func (f Fingerprint) Changed(now Fingerprint, tracked func(table string) bool) bool {
	for name, rows := range f {
		if now[name] != rows && (name == ofPublication || tracked(name)) {
			return true
		}
	}
	return false
}
