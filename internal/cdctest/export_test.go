package cdctest

import (
	"github.com/twmb/franz-go/pkg/kgo"
)

// Fataler is a testing.TB or a rapid.T.
type Fataler interface {
	Helper()
	Fatal(args ...any)
}

// RecordOf is recordOf for a well-formed record.
func RecordOf(t Fataler, r *kgo.Record) Record {
	t.Helper()
	rec, err := recordOf(r)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}
