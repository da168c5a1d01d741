package binlog

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/sqltext"
)

// A statement that gives the outbox another name ("from"), or its name to another table ("to"), stops the relay, unless it is the last one
// of an online schema change. Only a table whose name is free can be renamed back.
func TestRenames(t *testing.T) {
	modes := map[string]uint64{`"`: 1 << 2, "[": 1<<2 | 1<<10, `\`: 1 << 20} // ANSI_QUOTES, MSSQL, NO_BACKSLASH_ESCAPES
	for text, want := range map[string]string{
		"RENAME TABLE outbox TO x": "from", "rename tables a to b, outbox TO `x y`": "from", "RENAME TABLE `app` . `outbox` TO other.outbox": "from",
		"RENAME TABLE IF EXISTS a TO b, app.outbox WAIT 3 TO x": "from", "/*!80000 RENAME */ TABLE outbox TO x": "from", `RENAME TABLE "outbox" TO "x"`: "from",
		"ALTER TABLE outbox RENAME x": "from", "ALTER TABLE outbox ADD COLUMN c INT, RENAME AS x": "from", "alter online table if exists app.outbox rename = x": "from",
		"SET STATEMENT lock_wait_timeout=5, max_statement_time=9 FOR RENAME TABLE outbox TO x": "from", "set statement a='for' for alter table outbox rename x": "from",
		"RENAME TABLE [outbox] TO [x]": "from", `ALTER TABLE outbox COMMENT 'a\', RENAME TO x`: "from", `ALTER TABLE "outbox" COMMENT '"', RENAME TO "x"`: "from",
		`ALTER TABLE x COMMENT 'a\', RENAME TO outbox`: "to", "SET STATEMENT lock_wait_timeout=5 FOR RENAME TABLE x TO outbox": "to", "SET STATEMENT x=5": "",
		"RENAME TABLE x TO outbox": "to", "ALTER TABLE x RENAME TO `app`.`outbox`": "to", "RENAME TABLE `to` TO outbox": "to",
		"RENAME TABLE outbox TO a, b TO outbox":              "to",
		"RENAME TABLE outbox TO a, b TO outbox, outbox TO c": "from", "RENAME TABLE outbox TO a, orders TO outbox, a TO orders": "to", "RENAME TABLE outbox TO a, b TO orders": "from",
		"RENAME TABLE outbox TO _outbox_del, _outbox_gho TO outbox":                                     "",
		"RENAME TABLE `app`.`outbox` TO `app`.`_outbox_old`, `app`.`__outbox_new` TO `app`.`outbox`":    "",
		"RENAME TABLE outbox TO _outbox_old, x._outbox_new TO outbox":                                   "to",
		"RENAME TABLE outbox TO a, _orders_new TO outbox":                                               "to",
		"RENAME TABLE outbox TO _outbox_old, _outbox_new TO outbox, orders TO orders_away":              "from",
		"RENAME TABLE orders TO orders_away, outbox TO _outbox_old, _outbox_new TO outbox":              "from",
		"RENAME TABLE outbox TO _outbox_old, _outbox_new TO outbox, outbox TO outbox_away":              "from",
		"RENAME TABLE outbox TO _outbox_old, _outbox_new TO outbox, x TO orders":                        "to",
		"RENAME TABLE outbox TO _outbox_old, _outbox_new TO outbox, _orders_new TO orders":              "to",
		"RENAME TABLE x TO outbox, outbox TO _outbox_old, _outbox_new TO outbox":                        "to",
		"RENAME TABLE outbox TO _outbox_old, _outbox_new TO outbox, outbox TO b, _outbox_new TO outbox": "to",
		"RENAME TABLE outbox TO a, _outbox_gho TO outbox, orders TO b, _orders_new TO orders":           "",
		"RENAME TABLE a TO b": "", "RENAME TABLE other.outbox TO other.x": "", "ALTER TABLE outbox RENAME COLUMN a TO outbox": "", "ALTER TABLE outbox RENAME KEY a TO b": "",
		"ALTER TABLE x COMMENT 'RENAME TO outbox'": "", "ALTER TABLE outbox ADD COLUMN `rename` INT": "", "CREATE TABLE outbox (n INT)": "", "DROP TABLE outbox": "", "RENAME TABLE": "",
		"ALTER TABLE": "", "RENAME TABLE outbox": "", "RENAME USER a TO b": "",
	} {
		received, _ := mysql.ParseSet(cdc.MySQL, "")
		ss := &session{src: &Source{received: received, opts: Options{Options: mysql.Options{Tables: []string{"app.outbox", "app.orders"}}}, log: slog.New(slog.DiscardHandler)}}
		q := &replication.QueryEvent{Query: []byte(text), Schema: []byte("app")}
		for mark, mode := range modes {
			if strings.Contains(text, mark) {
				q.StatusVars = binary.LittleEndian.AppendUint64([]byte{1}, mode)
			}
		}
		got := ""
		if err := ss.renamed(q); err != nil {
			if got = "to"; strings.HasPrefix(cdc.Fix(ss.located(t.Context(), err)), "rename it back") {
				got = "from"
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q; read as %s", text, got, want, fmt.Sprint(sqltext.Renamings(q.Query, "app", q.StatusVars)))
		}
	}
}
