package binlog

import (
	"errors"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// An unused column may have any character set. A used column with an unsupported one is refused at the start, and stops the
// relay if rows are in the binlog already, which ALTER TABLE does not change.
//
//covers:binlogs 27 messages both
func TestStopAtUnsupportedCharset(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.exec("CREATE TABLE outbox (n INT NOT NULL, note VARCHAR(20) CHARACTER SET latin2, kind ENUM('a', 'b') CHARACTER SET cp1251)")
		const row = "INSERT INTO outbox VALUES "
		reads := map[string]bool{"n": true}
		o := current()
		o.Verify = func(table *cdc.Table) error {
			for _, c := range table.Columns {
				if reads[c.Name] && c.Form == cdc.FormForeign {
					return cdc.Stop(cdc.ClassConfig, "charset", errors.New("column "+c.Name+": convert it"), "")
				}
			}
			return nil
		}
		r := start(t, d.source(o), none)
		d.session(row + "(1, 'ő', 'a')")
		r.Expect(1)
		reads["note"] = true // from now on check and start refuse the column
		stops(t, d.source(o), "charset", "column note")
		r.MustStop()
		reads["note"] = false
		again := start(t, d.source(o), none)
		reads["note"] = true
		d.session(row+"(2, 'ő', 'a')", "ALTER TABLE outbox MODIFY note VARCHAR(20) CHARACTER SET utf8mb4")
		var stop *cdc.StopError
		err := again.Ended()
		if !errors.As(err, &stop) || stop.Reason != "charset" || stop.Class != cdc.ClassRuntime {
			t.Fatalf("%v, want charset", err)
		}
		reads["note"] = false
		d.past(err, o, row+"(3, 'ő', 'b')")
		found, tables := binlog.Check(t.Context(), d.options(o), none)
		if tables[d.name+".outbox"] == nil || tables[d.name+".outbox"].Columns[2].Form != cdc.FormForeign {
			t.Errorf("check finds %v", found)
		}
	})
}
