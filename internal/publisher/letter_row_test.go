package publisher

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// A letter has the row's payload, NULL or empty, whatever record the table makes of NULL.
func TestLetterHasPayloadOfRow(t *testing.T) {
	table := &cdc.Table{Name: "outbox", Columns: []cdc.Column{{Name: "id"}, {Name: "payload"}}}
	for length, null := range map[int32]bool{-1: true, 0: false} {
		b := &cdc.Batch{Table: table, Arena: []byte("1"), Spans: []cdc.Span{{Len: 1}, {Len: length}}, Txs: []cdc.Tx{{}}}
		r := &cdc.Routed{Batch: b, Payload: 1, Messages: []cdc.Message{{ID: []byte("1"), Value: []byte{}}}}
		d := (&letter{message: &r.Messages[0]}).letter(r)
		if _, ok := d.Batch(map[string]*cdc.Table{}).Value(0, 1); ok == null {
			t.Errorf("a payload of length %d: NULL is %v in the letter", length, !ok)
		}
	}
}
