package outbox

import (
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

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
