package binlog

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/test/conformance"
)

// bytesRead is how much the server has read from files and connections since it was started.
func (d *database) bytesRead() int {
	d.t.Helper()
	var name, pidFile, dataDir string
	for variable, value := range map[string]*string{"pid_file": &pidFile, "datadir": &dataDir} {
		d.scan("SHOW VARIABLES LIKE '"+variable+"'", &name, value)
	}
	if !filepath.IsAbs(pidFile) {
		pidFile = filepath.Join(dataDir, pidFile)
	}
	pid, err := os.ReadFile(pidFile)
	testenv.Must(d.t, err)
	io, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/io")
	testenv.Must(d.t, err)
	found := regexp.MustCompile(`(?m)^rchar: (\d+)$`).FindSubmatch(io)
	n, err := strconv.Atoi(string(found[1]))
	testenv.Must(d.t, err)
	return n
}

// fill writes mebibytes of rows of another table.
func (d *database) fill(mebibytes int) {
	d.t.Helper()
	d.exec("CREATE TABLE IF NOT EXISTS filler (data LONGBLOB)")
	for range mebibytes {
		d.exec("INSERT INTO filler VALUES (REPEAT('x', 1 << 20))")
	}
}

// A start does not have the server read its binlog up to the position, and without a hint once at most.
//
//covers:binlogs 13 rows both
func TestStartDoesNotSearchTheBinlog(t *testing.T) {
	const size = 48
	onEach(t, func(d *database) {
		d.empty()
		d.tables()
		d.fill(size)
		c := d.published([]string{insert(2)})
		begin := func(number int) int {
			before := d.bytesRead()
			r := start(d.t, d.source(binlog.Options{}), conformance.From(c))
			d.fresh(insert(number))
			r.ExpectUpTo(3, number)
			r.MustStop()
			return (d.bytesRead() - before) >> 20
		}
		if read := begin(3); read > size/8 {
			d.t.Errorf("with %+v the server has read %d MiB of %d", c.Progress, read, size)
		}
		c.Progress.Hint = ""
		if read := begin(4); read > size*3/2 {
			d.t.Errorf("without a hint the server has read %d MiB of %d", read, size)
		}
	})
}

// A hint that does not fit loses and repeats nothing, and stops no start: the next rows come, whatever it says.
//
//covers:binlogs 13 rows both
func TestHints(t *testing.T) {
	type change func(d *database, server, file string, offset, behind int) string
	hint := func(server, file string, offset, behind int) string {
		return fmt.Sprintf("%s/%s/%d/%d", server, file, offset, behind)
	}
	for name, change := range map[string]change{
		"fits":          func(_ *database, s, f string, o, b int) string { return hint(s, f, o, b) },
		"none":          func(*database, string, string, int, int) string { return "" },
		"nonsense":      func(*database, string, string, int, int) string { return "a/b/c/d" },
		"other server":  func(_ *database, _, f string, o, b int) string { return hint("x", f, o, b) },
		"no such file":  func(_ *database, s, f string, o, b int) string { return hint(s, f+"1", o, b) },
		"inside":        func(_ *database, s, f string, o, b int) string { return hint(s, f, o+11, b) },
		"before":        func(_ *database, s, f string, _, b int) string { return hint(s, f, 4, b) },
		"start of file": func(_ *database, s, f string, _, b int) string { return hint(s, f, 0, b) },
		"behind the end": func(_ *database, s, f string, _, b int) string {
			return hint(s, f, 1<<31, b)
		},
		"fewer": func(_ *database, s, f string, o, b int) string { return hint(s, f, o, b-1) },
		"more":  func(_ *database, s, f string, o, b int) string { return hint(s, f, o, b+1) },
		"next file": func(d *database, s, f string, o, b int) string {
			d.exec("FLUSH BINARY LOGS")
			d.exec("INSERT INTO other (n) VALUES (9)")
			return hint(s, f, o, b)
		},
		"purged": func(d *database, s, f string, o, b int) string {
			d.exec("FLUSH BINARY LOGS")
			files, err := d.server.Column(d.t.Context(), "SHOW BINARY LOGS", "Log_name")
			testenv.Must(d.t, err)
			d.exec("PURGE BINARY LOGS TO '" + files[len(files)-1] + "'")
			return hint(s, f, o, b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(d *database) {
				d.empty()
				d.tables()
				c := d.published(d.severalBehindTheStamp()...)
				fields := strings.Split(c.Progress.Hint, "/")
				if len(fields) != 4 {
					d.t.Fatalf("the hint of %+v is %q", c.Progress, c.Progress.Hint)
				}
				offset, _ := strconv.Atoi(fields[2])
				behind, _ := strconv.Atoi(fields[3])
				if want := map[string]int{"mysql": 0, "mariadb": 3}[d.flavor]; behind != want {
					d.t.Fatalf("%d transactions are behind the stamp's of %+v, want %d", behind, c.Progress, want)
				}
				c.Progress.Hint = change(d, fields[0], fields[1], offset, behind)
				d.fresh(insert(100))
				r := start(d.t, d.source(binlog.Options{}), conformance.From(c))
				d.fresh(insert(101))
				r.Expect(100, 101)
			})
		})
	}
}

// severalBehindTheStamp are transactions of which MariaDB dates only the first: one of them in another domain.
func (d *database) severalBehindTheStamp() [][]string {
	if d.flavor == "mysql" {
		return [][]string{{insert(2)}, {"BEGIN", insert(3), insert(4), "COMMIT"}}
	}
	mixed := func(settings string, n int) []string {
		return []string{settings, "BEGIN", insert(n), "SET timestamp = UNIX_TIMESTAMP() + 9", insert(n + 1), "COMMIT"}
	}
	return [][]string{
		{insert(2)},
		mixed("SET gtid_domain_id = 7", 3),
		{"ALTER TABLE other ADD m INT"},
		mixed("SET gtid_domain_id = 0", 5),
	}
}

// A server that was promoted has transactions in another order: one that is not in the position comes before the one that is compared.
//
//covers:binlogs 29 rows both
func TestStampBehindNewTransactions(t *testing.T) {
	onEach(t, func(d *database) {
		d.empty()
		d.tables()
		elsewhere := map[string]string{"mysql": "SET gtid_next = '3e11fa47-71ca-11e1-9e33-c80aa9429562:7'", "mariadb": "SET gtid_domain_id = 7"}[d.flavor]
		d.exec("INSERT INTO other VALUES (1)")
		c := d.published([]string{elsewhere, insert(2)}, []string{insert(3)})
		var kept []string
		for part := range strings.SplitSeq(string(c.Progress.Position), ",") {
			if !strings.HasPrefix(part, "7-") && !strings.HasPrefix(part, "3e11fa47-") {
				kept = append(kept, part)
			}
		}
		c.Progress.Position, c.Progress.Hint = cdc.Position(strings.Join(kept, ",")), ""
		r := start(d.t, d.source(binlog.Options{}), conformance.From(c))
		d.fresh(insert(4))
		r.Expect(2, 4)
	})
}

// The server that was promoted has the transaction that is compared at the same place of the same file, and before it one that is in no
// position.
//
//covers:binlogs 29 rows both
func TestHintOfAnotherServer(t *testing.T) {
	type transactions struct{ before, either, other, compared []string }
	const origin = "SET gtid_next = '3e11fa47-71ca-11e1-9e33-c80aa9429562:"
	of := map[string]transactions{
		"mysql": {
			before: []string{origin + "1'", insert(2)}, either: []string{origin + "2'", insert(3)}, other: []string{origin + "9'", insert(5)},
			compared: []string{origin + "3'", "SET original_commit_timestamp = 1700000000000000", insert(4)},
		},
		"mariadb": {
			before: []string{"SET gtid_domain_id = 7", insert(2)}, either: []string{"SET gtid_domain_id = 0", insert(3)}, other: []string{"SET gtid_domain_id = 9", insert(5)},
			compared: []string{"SET gtid_domain_id = 7, timestamp = 1700000000", insert(4)},
		},
	}
	onEach(t, func(d *database) {
		tx := of[d.flavor]
		d.tables()
		d.empty()
		c := d.published(tx.before, tx.either, tx.compared)
		own, place, _ := strings.Cut(c.Progress.Hint, "/")
		if own == "" {
			d.t.Fatalf("%+v has no hint", c.Progress)
		}
		d.empty()
		d.fresh(insert(1))
		for _, statements := range [][]string{tx.before, tx.other, tx.compared, tx.either} {
			d.fresh(statements...)
		}
		c.Progress.Hint = "another/" + place
		r := start(d.t, d.source(binlog.Options{}), conformance.From(c))
		d.fresh(insert(6))
		r.Expect(5, 6)
	})
}
