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
		if cdc.ReasonOf(err) != "column_type" || !strings.Contains(err.Error(), "column id of public.outbox is of type bytea") {
			t.Errorf("%s: %v", part.String(), err)
		}
	}
}

// A column whose values cannot be read is refused where it is read, and nowhere else.
func TestUnreadableColumns(t *testing.T) {
	for form, reason := range map[cdc.Form]string{cdc.FormOpaque: "column_type", cdc.FormForeign: "charset", cdc.FormText: ""} {
		table := &cdc.Table{Schema: "public", Name: "outbox", Columns: []cdc.Column{{Name: "id"}, {Name: "price", Form: form}}}
		if _, err := Column(table, "id"); err != nil {
			t.Error(err)
		}
		_, err := Column(table, "price")
		if cdc.ReasonOf(err) != reason || err != nil && !strings.Contains(err.Error(), "column price of public.outbox") {
			t.Errorf("form %d: %v", form, err)
		}
	}
}
