package sqltext

import (
	"slices"
	"strings"
	"testing"
)

// checksumChunk is what pt-table-checksum writes for each part of a table.
const checksumChunk = "REPLACE INTO `percona`.`checksums` (db, tbl, chunk, chunk_index, lower_boundary, upper_boundary, this_cnt, this_crc) " +
	"SELECT 'shop', 'o''rders', '1', 'PRIMARY', '1', 'a\\'`(/*', COUNT(*) AS cnt, COALESCE(LOWER(CONV(BIT_XOR(CAST(CRC32(CONCAT_WS('#', `id`, " +
	"convert(`na.me` using utf8mb4), UNIX_TIMESTAMP(`at`), ROUND(`f`, 17 - 3), CONCAT(ISNULL(`at`), ISNULL(`f`)))) AS UNSIGNED)), 10, 16)), 0) AS crc " +
	"FROM `shop`.`orders` FORCE INDEX(`PRIMARY`) WHERE ((`id` > '1') OR (`id` = '1' AND `f` >= '2')) AND ((`id` <= '9')) /*checksum chunk*/"

func TestTablesOf(t *testing.T) {
	for text, want := range map[string]string{
		checksumChunk: "percona.checksums shop.orders",
		"REPLACE INTO `percona`.`checksums` (db) SELECT 'x', NULL, COUNT(*), '0' FROM `shop`.`o``r` WHERE ((`id` < '1')) ORDER BY `id` /*past lower chunk*/": "",
		"REPLACE INTO `percona`.`checksums` (db) SELECT 'x', COUNT(*), '0' FROM `shop`.`orders` /*checksum table*/":                                          "percona.checksums shop.orders",
		"UPDATE `percona`.`checksums` SET chunk_time = '0.09', master_crc = 'f', master_cnt = '1' WHERE db = 'shop' AND tbl = 'orders' AND chunk = '1'":      "percona.checksums .",
		"DELETE FROM `percona`.`checksums` WHERE db = 'shop' AND tbl = 'orders'":                                                                             "percona.checksums .",
		"INSERT IGNORE INTO `a.b`.t VALUES (1, -2.5e3, 'x'), (now(), x'00', DEFAULT)":                                                                        "a.b.t .",
		"insert into percona . checksums set a = 1":                                                                                                          "percona.checksums .",
		"INSERT INTO t SELECT 1 FROM v":          "here.t here.v",
		"DELETE FROM t":                          "here.t .",
		"INSERT INTO t SELECT `x from y` FROM v": "here.t here.v",
		// Of pt-heartbeat, pt-archiver and gh-ost.
		"REPLACE INTO `percona`.`heartbeat` (ts, server_id, file, relay_master_log_file) VALUES ('2026-01-01T00:00:00.001', '1', 'binlog.000001', NULL)":                     "percona.heartbeat .",
		"UPDATE `percona`.`heartbeat` SET ts='2026-01-01', position='4' WHERE server_id='1'":                                                                                 "percona.heartbeat .",
		"DELETE FROM `shop`.`orders` WHERE (((`id` >= '1'))) AND (((`id` <= '9'))) AND (n < 5) LIMIT 100":                                                                    "shop.orders .",
		"INSERT INTO `shop`.`old`(`id`,`n`) VALUES ('1',NULL)":                                                                                                               "shop.old .",
		"insert /* gh-ost */ into `shop`.`_orders_ghc` (id, hint, value) values (NULLIF(1, 0), 'state', 'x') on duplicate key update last_update=NOW(), value=VALUES(value)": "shop._orders_ghc .",
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
		"INSERT INTO t VALUES (x.in (1))":                    "",
		"INSERT INTO t VALUES ('x'(1))":                      "",
		"INSERT INTO t VALUES (`x y`(1))":                    "",
		"INSERT INTO t SELECT 1 FROM v WHERE f()":            "",
		"INSERT INTO t SELECT 1 FROM v ORDER BY f()":         "",
		"INSERT INTO t SET n = f()":                          "",
		"UPDATE t SET n = f()":                               "",
		"DELETE FROM t WHERE f()":                            "",
		"DELETE FROM t ORDER BY f() LIMIT 1":                 "",
		"/*/ DELETE FROM t */ UPDATE t SET n = f()":          "",
		"EXPLAIN DELETE FROM t":                              "",
		// Tables that may go by another name.
		"INSERT INTO `my t` VALUES (1)":            "",
		"INSERT INTO ``.t VALUES (1)":              "",
		"INSERT INTO `ø` VALUES (1)":               "",
		"INSERT INTO `o\u212A` VALUES (1)":         "",
		"INSERT INTO `#mysql50#outbox` VALUES (1)": "",
		"INSERT INTO t SELECT 1 FROM `v?`":         "",
		// More tables than two.
		"INSERT INTO t SELECT `a from b where` FROM v, w":              "",
		"INSERT INTO t SELECT `a from b where`, x.from FROM w":         "",
		"INSERT INTO t (SELECT 1 FROM v)":                              "",
		"INSERT INTO t SELECT 1 FROM v FORCE INDEX (i), w":             "",
		"INSERT INTO t SELECT 1 FROM v WHERE EXISTS (SELECT 1 FROM w)": "",
		"INSERT INTO t SELECT trim('x' FROM n) FROM v":                 "",
		"INSERT INTO t SELECT trim('x' FROM n)":                        "",
		"INSERT INTO t SELECT 1 INTO @x FROM v":                        "",
		"UPDATE t JOIN v SET n = 1":                                    "",
		"INSERT INTO t SELECT 1 FROM v, w":                             "",
		"INSERT INTO t SELECT 1 FROM v x":                              "",
		"INSERT INTO t SELECT 1 FROM v JOIN w":                         "",
		"INSERT INTO t SELECT 1 FROM (SELECT 1) x":                     "",
		"INSERT INTO t SELECT 1 FROM v WHERE n IN (SELECT 1)":          "",
		"INSERT INTO t SELECT 1 FROM v WHERE n IN (TABLE w)":           "",
		"INSERT INTO t SELECT 1 FROM v UNION SELECT 1 FROM w":          "",
		"INSERT INTO t SELECT (SELECT n FROM w) FROM v":                "",
		"INSERT INTO t WITH x AS (SELECT 1) SELECT n FROM x":           "",
		"INSERT INTO t TABLE v":                                        "",
		"INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE n = f()":     "",
		"INSERT INTO t PARTITION (p) VALUES (1)":                       "",
		"WITH x AS (SELECT 1) UPDATE t SET n = 1":                      "",
		"UPDATE t, v SET n = 1":                                        "",
		"UPDATE t x SET n = 1":                                         "",
		"UPDATE t SET n = (SELECT 1)":                                  "",
		"DELETE t FROM t, v":                                           "",
		"DELETE FROM t, v USING t":                                     "",
		"DELETE FROM t USING t JOIN v":                                 "",
		"DELETE FROM t RETURNING f()":                                  "",
		"INSERT INTO a.b.c VALUES (1)":                                 "",
		// Other statements.
		"LOAD DATA INFILE 'x' INTO TABLE t": "",
		"SELECT f()":                        "",
		"CALL p()":                          "",
		"SET STATEMENT x = 1 FOR INSERT INTO t SELECT 1": "",
		"": "",
	} {
		got, known := TablesOf(text, "here")
		if named := got.Changed.String() + " " + got.Read.String(); known != (want != "") || known && named != want {
			t.Errorf("%s: %s %v, want %q", text, named, known, want)
		}
	}
}

func TestOfRDS(t *testing.T) {
	for text, want := range map[string]bool{
		"INSERT INTO mysql.rds_heartbeat2(id, value) values (1,2) ON DUPLICATE KEY UPDATE value = 2": true,
		"DELETE FROM mysql.rds_sysinfo where name = 'innodb_txn_key'":                                true,
		"INSERT INTO mysql.rds_sysinfo SELECT f()":                                                   false,
		"INSERT INTO mysql.rds_sysinfo SELECT n FROM v":                                              false,
		"INSERT INTO shop.outbox SELECT * FROM mysql.rds_sysinfo":                                    false,
		"UPDATE t SET n = 1": false,
	} {
		if got, known := TablesOf(text, "here"); got.OfRDS() && known != want {
			t.Errorf("%s: want %v", text, want)
		}
	}
}

// No text makes it fail, and whatever passes names its tables, and calls nothing that is not known.
func FuzzTablesOf(f *testing.F) {
	for _, text := range []string{
		checksumChunk, "INSERT INTO outbox SELECT f() FROM v", "UPDATE `outbox` SET n = 1", "DELETE FROM x.outbox WHERE (1)",
		"INSERT INTO t VALUES ('\\'', \"x\", `f`(1), x.f(1), max (1), evil(1), (evil) (2)) /* x */",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, known := TablesOf(text, "here")
		if !known {
			return
		}
		if got.Changed.Name == "" || got.Changed.Database == "" {
			t.Errorf("%q changes nothing", text)
		}
		// By other means: no literals, no comments, no space.
		bare := bareText(text)
		for rest := bare; ; {
			i := strings.IndexByte(rest, '(')
			if i < 0 {
				break
			}
			name := strings.ToLower(rest[strings.LastIndexFunc(rest[:i], func(c rune) bool { return c > '~' || !isWord(byte(c)) })+1 : i])
			if strings.Contains(name, "evil") || name == "f" {
				t.Errorf("%q calls %s", text, name)
			}
			rest = rest[i+1:]
		}
		named := strings.ToLower(got.Changed.String() + " " + got.Read.String())
		words := wordsOf(text, true)
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
			n, _ = quotedSize(text)
		case '/':
			if n, _ = commentSize(text, false); n == 0 {
				n = 1
				b.WriteByte('/')
			}
		default:
			b.WriteByte(text[0])
		}
		text = text[n:]
	}
	return b.String()
}
