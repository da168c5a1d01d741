package cdctest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// RecordOf is recordOf for a well-formed record.
func RecordOf(t *testing.T, r *kgo.Record) Record {
	t.Helper()
	rec, err := recordOf(r)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}
