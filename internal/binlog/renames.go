package binlog

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/sqltext"
)

// shadow is what gh-ost and pt-online-schema-change call the table that they put in the place of another one. It should hold
// copies of that one's rows only, and both change their names in one statement, so that nothing is written in between.
var shadow = regexp.MustCompile(`^_+(.+)_(?:gho|new)$`)

// renamed returns an error if a statement gives a configured table another name, or another table its name: the binlog knows rows by
// the name that their table had when they were written.
func (ss *session) renamed(q *replication.QueryEvent) error {
	for _, list := range sqltext.Renamings(q.Query, string(q.Schema), q.StatusVars) {
		if err := ss.renames(list); err != nil {
			return err
		}
	}
	return nil
}

// renames is renamed for what one statement does, in this order.
func (ss *session) renames(list []sqltext.Renaming) error {
	halves := map[int]bool{} // of online schema changes: the second one, which gives the shadow the table's name
	for i, r := range list {
		ours := mysql.ConfiguredName(ss.src.opts.Tables, ss.src.caseless, r.From.String())
		if ours == "" {
			continue
		}
		half := slices.IndexFunc(list, func(o sqltext.Renaming) bool {
			of := shadow.FindStringSubmatch(o.From.Name)
			return of != nil && o.From.Database == r.From.Database && o.To == r.From && strings.EqualFold(of[1], r.From.Name)
		})
		if half >= i && !halves[half] {
			halves[half] = true
			ss.src.next.replaced += ours + "\n"
			ss.src.log.Warn("an online schema change has replaced the table: its copies of rows are not published again", slog.String("table", ours))
			continue
		}
		replaced := false // by a table that the loop below finds
		for j, o := range list {
			replaced = replaced || j > i && !halves[j] && mysql.ConfiguredName(ss.src.opts.Tables, ss.src.caseless, o.To.String()) == ours
		}
		if !replaced {
			return content("table_renamed", "rename it back (the relay stops there too, and then only the position is to be moved)",
				"table %s is renamed to %s: what is written to it under another name is in the binlog as that of another table, and not published", ours, r.To)
		}
	}
	for i, r := range list {
		if ours := mysql.ConfiguredName(ss.src.opts.Tables, ss.src.caseless, r.To.String()); ours != "" && !halves[i] {
			_, behind := ss.location()
			return cdc.Stop(cdc.ClassRuntime, "table_renamed", fmt.Errorf(
				"table %s is renamed to %s: what was written to it before is in the binlog as that of another table, and not published", r.From, ours),
				"publish what consumers miss of it with `cdc-relay repair --since TIME`, unless that was done after "+
					time.UnixMicro(ss.tx.micros).UTC().Format(time.RFC3339)+", and move the position past it with `cdc-relay position set "+behind+" --skip-events`")
		}
	}
	return nil
}
