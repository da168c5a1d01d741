package outbox

import (
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// PostgreSQL shows bytes in another way than the relay: they are no ID, be it behind a text or not.
func TestBytesAreNoID(t *testing.T) {
	table := &cdc.Table{Schema: "public", Name: "outbox", Columns: []cdc.Column{{Name: "id", Type: cdc.TypeBytes}}}
	for _, part := range []Part{Of("id"), {Template: "a-${id}"}} {
		layout, err := Mapped(map[string]Part{"event_id": part})
		if err != nil {
			t.Fatal(err)
		}
		layout.TextID = true
		_, err = layout.Plan(table, "tables[0]")
		if cdc.ReasonOf(err) != "column_type" || !strings.Contains(err.Error(), "column id of public.outbox is of type bytea") || !strings.Contains(cdc.Fix(err), "under tables[0].columns.event_id") {
			t.Errorf("%s: %v", part.String(), err)
		}
	}
}
