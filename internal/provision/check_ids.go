package provision

import (
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// noteSharedIDs warns of two tables whose numbers make the same IDs.
func noteSharedIDs(all []app.Table, found map[string]*cdc.Table, r *cdc.Report) {
	number := func(t *app.Table) bool {
		has := found[t.Name.String()]
		if !t.Foreign() || has == nil {
			return false
		}
		i := has.Index(t.Layout.Column(outbox.EventID))
		return i >= 0 && has.Columns[i].Type == cdc.TypeInteger
	}
	for i := range all {
		for j := range all[:i] {
			long, short := all[i].Layout.IDPrefix(), all[j].Layout.IDPrefix()
			if len(long) < len(short) {
				long, short = short, long
			}
			rest, begins := strings.CutPrefix(long, short)
			if begins && strings.Trim(rest, "0123456789") == "" && number(&all[i]) && number(&all[j]) {
				r.Warn("table "+all[i].Name.String(), `give each table a prefix that ends with no digit, as in event_id: {template: "orders-${id}"}`,
					"its event IDs and those of %s are numbers that can be the same", all[j].Name)
			}
		}
	}
}
