package binlog

import (
	"slices"
	"testing"
)

// A statement writes to several outbox tables, for example because a trigger on one copies rows into another. Its table maps
// precede all of its rows in the binlog. Columns b and y are decoded by go-mysql.
func TestStatementOnSeveralTables(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		d.exec("CREATE TABLE second (n INT NOT NULL, b BIT(7), y YEAR)")
		d.exec("CREATE TRIGGER copied AFTER INSERT ON outbox FOR EACH ROW INSERT INTO second VALUES (NEW.n + 100, 1, 2000)")
		o := current()
		o.Tables = []string{d.name + ".outbox", d.name + ".second"}
		r := start(t, d.source(o), newQueue(), none)
		d.session(insert(1), "BEGIN", insert(2, 3), "INSERT INTO second VALUES (4, 1, 2000)", insert(5), "COMMIT")
		got := numbers(r.await(9))
		slices.Sort(got) // the order between tables is the server's
		same(t, got, []int{1, 2, 3, 4, 5, 101, 102, 103, 105})
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}
