package binlog

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

// checksumChunk is what pt-table-checksum writes for each part of a table.
const checksumChunk = "REPLACE INTO `percona`.`checksums` (db, tbl, chunk, chunk_index, lower_boundary, upper_boundary, this_cnt, this_crc) " +
	"SELECT 'shop', 'o''rders', '1', 'PRIMARY', '1', 'a\\'`(/*', COUNT(*) AS cnt, COALESCE(LOWER(CONV(BIT_XOR(CAST(CRC32(CONCAT_WS('#', `id`, " +
	"convert(`na.me` using utf8mb4), UNIX_TIMESTAMP(`at`), ROUND(`f`, 17 - 3), CONCAT(ISNULL(`at`), ISNULL(`f`)))) AS UNSIGNED)), 10, 16)), 0) AS crc " +
	"FROM `shop`.`orders` FORCE INDEX(`PRIMARY`) WHERE ((`id` > '1') OR (`id` = '1' AND `f` >= '2')) AND ((`id` <= '9')) /*checksum chunk*/"

func TestTouchedBy(t *testing.T) {
	for text, want := range map[string]string{
		checksumChunk: "percona.checksums shop.orders",
		"REPLACE INTO `percona`.`checksums` (db) SELECT 'x', NULL, COUNT(*), '0' FROM `shop`.`o``r` WHERE ((`id` < '1')) ORDER BY `id` /*past lower chunk*/": "",
		"REPLACE INTO `percona`.`checksums` (db) SELECT 'x', COUNT(*), '0' FROM `shop`.`orders` /*checksum table*/":                                          "percona.checksums shop.orders",
		"UPDATE `percona`.`checksums` SET chunk_time = '0.09', master_crc = 'f', master_cnt = '1' WHERE db = 'shop' AND tbl = 'orders' AND chunk = '1'":      "percona.checksums .",
		"DELETE FROM `percona`.`checksums` WHERE db = 'shop' AND tbl = 'orders'":                                                                             "percona.checksums .",
		"INSERT IGNORE INTO `a.b`.t VALUES (1, -2.5e3, 'x'), (now(), x'00', DEFAULT)":                                                                        "a.b.t .",
		"insert into percona . checksums set a = 1":                                                                                                          "percona.checksums .",
		"INSERT INTO t SELECT 1 FROM v": "here.t here.v",
		"DELETE FROM t":                 "here.t .",
		// What calls something, or may.
		"INSERT INTO t SELECT f() FROM v":                    "",
		"INSERT INTO t SELECT x.count(1) FROM v":             "",
		"INSERT INTO t SELECT x . crc32 (1) FROM v":          "",
		"INSERT INTO t SELECT x.`crc32`(1) FROM v":           "",
		"INSERT INTO t SELECT `crc32`(1) FROM v":             "",
		"INSERT INTO t SELECT max (1) FROM v":                "",
		"INSERT INTO t SELECT max/**/(1) FROM v":             "",
		"INSERT INTO t SELECT md5(1)":                        "",
		"INSERT INTO t VALUES (value (1))":                   "",
		"INSERT INTO t VALUES (x.and (1))":                   "",
		"INSERT INTO t VALUES (/*!50000 f() */ 1)":           "",
		"INSERT INTO t VALUES (/*M! f() */ 1)":               "",
		"INSERT /*+ SET_VAR(sql_mode='') */ INTO t SELECT 1": "",
		"/*! INSERT */ INTO t VALUES (1)":                    "",
		"INSERT INTO t VALUES (1) -- x\n":                    "",
		"INSERT INTO t VALUES (1) # x":                       "",
		"INSERT INTO t VALUES ($$x$$)":                       "",
		"INSERT INTO t VALUES (@x := f())":                   "",
		"INSERT INTO t VALUES ({fn f()})":                    "",
		"INSERT INTO t VALUES (1); DELETE FROM v":            "",
		"INSERT INTO t VALUES ('unfinished)":                 "",
		"INSERT INTO t VALUES (1) /* unfinished":             "",
		"INSERT INTO t VALUES (1) /* /* */":                  "",
		"INSERT INTO t VALUES (\x001)":                       "",
		"INSERT INTO t VALUES (ø(1))":                        "",
		// More tables than two.
		"INSERT INTO t SELECT 1 FROM v, w":                         "",
		"INSERT INTO t SELECT 1 FROM v x":                          "",
		"INSERT INTO t SELECT 1 FROM v JOIN w":                     "",
		"INSERT INTO t SELECT 1 FROM (SELECT 1) x":                 "",
		"INSERT INTO t SELECT 1 FROM v WHERE n IN (SELECT 1)":      "",
		"INSERT INTO t SELECT 1 FROM v WHERE n IN (TABLE w)":       "",
		"INSERT INTO t SELECT 1 FROM v UNION SELECT 1 FROM w":      "",
		"INSERT INTO t SELECT (SELECT n FROM w) FROM v":            "",
		"INSERT INTO t WITH x AS (SELECT 1) SELECT n FROM x":       "",
		"INSERT INTO t TABLE v":                                    "",
		"INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE n = f()": "",
		"INSERT INTO t PARTITION (p) VALUES (1)":                   "",
		"WITH x AS (SELECT 1) UPDATE t SET n = 1":                  "",
		"UPDATE t, v SET n = 1":                                    "",
		"UPDATE t x SET n = 1":                                     "",
		"UPDATE t SET n = (SELECT 1)":                              "",
		"DELETE t FROM t, v":                                       "",
		"DELETE FROM t, v USING t":                                 "",
		"DELETE FROM t USING t JOIN v":                             "",
		"DELETE FROM t RETURNING f()":                              "",
		"INSERT INTO a.b.c VALUES (1)":                             "",
		// Other statements.
		"LOAD DATA INFILE 'x' INTO TABLE t": "",
		"SELECT f()":                        "",
		"CALL p()":                          "",
		"SET STATEMENT x = 1 FOR INSERT INTO t SELECT 1": "",
		"": "",
	} {
		got, known := touchedBy(text, "here")
		if named := got.changed.String() + " " + got.read.String(); known != (want != "") || known && named != want {
			t.Errorf("%s: %s %v, want %q", text, named, known, want)
		}
	}
}

func TestPlainly(t *testing.T) {
	ss := &session{charsets: map[uint64]charset{45: charsetUTF8}}
	variables := func(mode uint64, client uint16) []byte {
		b := append([]byte{0, 0, 0, 0, 0, statusMode}, binary.LittleEndian.AppendUint64(nil, mode)...)
		return append(append(b, statusCharsets), byte(client), byte(client>>8), 0, 0, 0, 0)
	}
	for _, tt := range []struct {
		variables []byte
		text      string
		want      bool
	}{
		{variables(1<<19|1<<21, 45), "ø", true},
		{variables(1<<19|1<<21, 28), "o", true},
		{variables(0, 28), "ø", false}, // gbk
		{variables(0, 28), "\xff", false},
		{variables(1<<2, 45), "o", false},  // ANSI_QUOTES
		{variables(1<<9, 45), "o", false},  // ORACLE
		{variables(1<<20, 45), "o", false}, // NO_BACKSLASH_ESCAPES
		{nil, "o", false},
	} {
		if got := ss.plainly(tt.variables, tt.text); got != tt.want {
			t.Errorf("%x %s: %v", tt.variables, tt.text, got)
		}
	}
}

func TestDDLAhead(t *testing.T) {
	for text, want := range map[string]bool{
		"DROP TRIGGER fires": true, "DROP DATABASE X": true, "RENAME TABLE a TO `b`, T TO c": true, "ALTER TABLE x.t RENAME y": true,
		"CREATE OR REPLACE TABLE t SELECT 1": true, "/*!50003 DROP TRIGGER */ x.fires": true, "SET STATEMENT n = 1 FOR DROP TABLE t": true,
		"DROP TABLE \"x\".y": true, "ALTER TABLE y COMMENT 'a\\', RENAME TO z": true, "DROP TABLE ø": true,
		"DROP TABLE y": false, "CREATE TABLE IF NOT EXISTS x.t (n INT)": false, "DROP TEMPORARY TABLE t": false, "REPLACE INTO t VALUES ('ø')": false, "": false,
	} {
		d, found := ddlOf(text, "X")
		if got := found && d.on(tableName{"x", "t"}); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// No text makes it fail, and whatever passes names its tables, and calls nothing that is not known.
func FuzzTouchedBy(f *testing.F) {
	for _, text := range []string{
		checksumChunk, "INSERT INTO outbox SELECT f() FROM v", "UPDATE `outbox` SET n = 1", "DELETE FROM x.outbox WHERE (1)",
		"INSERT INTO t VALUES ('\\'', \"x\", `f`(1), x.f(1), max (1), evil(1), (evil) (2)) /* x */",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, known := touchedBy(text, "here")
		if !known {
			return
		}
		if got.changed.table == "" || got.changed.database == "" {
			t.Errorf("%q changes nothing", text)
		}
		// By other means: no literals, no comments, no space.
		bare := bareText(text)
		for rest := bare; ; {
			i := strings.IndexByte(rest, '(')
			if i < 0 {
				break
			}
			name := strings.ToLower(rest[strings.LastIndexFunc(rest[:i], func(c rune) bool { return c > '~' || !isPlain(byte(c)) })+1 : i])
			if strings.Contains(name, "evil") || name == "f" {
				t.Errorf("%q calls %s", text, name)
			}
			rest = rest[i+1:]
		}
		named := strings.ToLower(got.changed.String() + " " + got.read.String())
		words := wordsOf(text)
		for i, word := range words[:len(words)-1] {
			if slices.Contains([]string{"from", "into", "update", "join"}, word) && !strings.Contains(named, strings.ToLower(strings.Trim(words[i+1], "`"))) {
				t.Errorf("%q is said to touch %s", text, named)
			}
		}
	})
}

func bareText(text string) string {
	var b strings.Builder
	for text != "" {
		n := 1
		switch text[0] {
		case '\'', '"', '`':
			n = quoted(text)
		case '/':
			n = skipped(text)
			if n == 1 {
				b.WriteByte('/')
			}
		default:
			b.WriteByte(text[0])
		}
		text = text[n:]
	}
	return b.String()
}
