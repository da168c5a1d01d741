package provision

import (
	"fmt"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// noteColumns says what the columns of another software's table, the i-th, mean here and may mean otherwise there.
func noteColumns(i int, table *app.Table, t *cdc.Table, needs func(table, column string) bool, r *cdc.Report) {
	subject, setting := "table "+table.Name.String(), fmt.Sprintf("tables[%d].time_zone", i)
	var zoneless []string // those that are read
	for i := range t.Columns {
		if c := &t.Columns[i]; c.Type == cdc.TypeLocalTime && needs(table.Name.String(), c.Name) {
			zoneless = append(zoneless, c.Name)
		}
	}
	switch zoned := table.Layout.Zone != nil; {
	case zoned && len(zoneless) == 0:
		r.Warn(subject, "remove it", "%s has no effect: no column that is read is a time without a zone", setting)
	case !zoned && len(zoneless) > 0:
		r.Info(subject, "set "+setting+" if its writers use another", "a time without a zone is read as UTC: %s", strings.Join(zoneless, ", "))
	}
	for _, column := range []string{"available_at", "next_retry_at", "retry_after", "scheduled_at"} { // of pollers
		if t.Index(column) >= 0 && !needs(table.Name.String(), column) {
			r.Info(subject, "", "column %s is not read: an event is published when it is committed", column)
		}
	}
}
