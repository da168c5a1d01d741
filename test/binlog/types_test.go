package binlog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// golden are columns of every type, each with two values, and the expected text if it differs from SELECT CAST(... AS CHAR).
type golden struct {
	name, ddl string
	values    []string // SQL
	want      []string // nil: as SELECT prints
}

func goldens() []golden {
	return []golden{
		{"t1", "TINYINT", []string{"-128", "127"}, nil},
		{"t1u", "TINYINT UNSIGNED", []string{"0", "255"}, nil},
		{"t2", "SMALLINT", []string{"-32768", "32767"}, nil},
		{"t2u", "SMALLINT UNSIGNED", []string{"1", "65535"}, nil},
		{"t3", "MEDIUMINT", []string{"-8388608", "8388607"}, nil},
		{"t3u", "MEDIUMINT UNSIGNED", []string{"1", "16777215"}, nil},
		{"t4", "INT", []string{"-2147483648", "2147483647"}, nil},
		{"t4u", "INT UNSIGNED", []string{"1", "4294967295"}, nil},
		{"t8", "BIGINT", []string{"-9223372036854775808", "9223372036854775807"}, nil},
		{"t8u", "BIGINT UNSIGNED", []string{"1", "18446744073709551615"}, nil},
		{"yes", "BOOLEAN", []string{"true", "false"}, nil},
		{"dt", "DATETIME", []string{"'2026-01-02 03:04:05'", "'1000-01-01 00:00:00'"}, []string{"2026-01-02T03:04:05Z", "1000-01-01T00:00:00Z"}},
		{"dt3", "DATETIME(3)", []string{"'2026-01-02 03:04:05.120'", "'2026-12-31 23:59:59.001'"}, []string{"2026-01-02T03:04:05.12Z", "2026-12-31T23:59:59.001Z"}},
		{"dt6", "DATETIME(6)", []string{"'2026-01-02 03:04:05.000001'", "'9999-12-31 23:59:59.999999'"}, []string{"2026-01-02T03:04:05.000001Z", "9999-12-31T23:59:59.999999Z"}},
		{"ts", "TIMESTAMP NULL", []string{"'2026-01-02 03:04:05'", "NULL"}, []string{"2026-01-02T03:04:05Z", ""}},
		{"ts6", "TIMESTAMP(6) NULL", []string{"'2026-01-02 03:04:05.5'", "'2026-01-02 03:04:05'"}, []string{"2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05Z"}},
		{"c", "CHAR(10)", []string{"'abc'", "'größer'"}, nil},
		{"clong", "CHAR(255)", []string{"REPEAT('ä', 255)", "''"}, nil},
		{"v", "VARCHAR(20)", []string{"'日本語 🚀'", "''"}, nil},
		{"vlong", "VARCHAR(1000)", []string{"REPEAT('x', 1000)", "'short'"}, nil},
		{"latin", "VARCHAR(20) CHARACTER SET latin1", []string{"'Äpfel € œ'", "'plain'"}, nil},
		{"latintext", "TEXT CHARACTER SET latin1", []string{"'Grüße'", "NULL"}, nil},
		{"b", "BINARY(4)", []string{"X'41000000'", "X'00000000'"}, []string{"A\x00\x00\x00", "\x00\x00\x00\x00"}},
		{"vb", "VARBINARY(20)", []string{"X'4100'", "X'FF00FF'"}, []string{"A\x00", "\xff\x00\xff"}},
		{"id", "VARBINARY(16)", []string{"X'0198C0DE000070008000000000000001'", "X'0198C0DE000070008000000000000000'"}, []string{"0198c0de-0000-7000-8000-000000000001", "0198c0de-0000-7000-8000-000000000000"}},
		{"fixedid", "BINARY(16)", []string{"X'0198C0DE000070008000000000000100'", "X'0198C0DE000070008000000000000000'"}, []string{"0198c0de-0000-7000-8000-000000000100", "0198c0de-0000-7000-8000-000000000000"}},
		{"tiny", "TINYTEXT", []string{"'t'", "''"}, nil},
		{"txt", "TEXT", []string{"'text ✓'", "NULL"}, nil},
		{"med", "MEDIUMTEXT", []string{"REPEAT('m', 70000)", "'m'"}, nil},
		{"lng", "LONGTEXT", []string{"'l'", "''"}, nil},
		{"bl", "BLOB", []string{"X'00FF'", "NULL"}, []string{"\x00\xff", ""}},
		{"lbl", "LONGBLOB", []string{"REPEAT('b', 100000)", "''"}, nil},
		{"pt", "POINT", []string{"ST_GeomFromText('POINT(1 2)', 4326)", "NULL"}, nil},
		{"geo", "GEOMETRY", []string{"ST_GeomFromText('LINESTRING(0 0, 1 2)')", "ST_GeomFromText('POLYGON((0 0, 1 0, 1 1, 0 0))')"}, nil},
		{"virt", "INT GENERATED ALWAYS AS (t1 * 2) VIRTUAL", []string{"DEFAULT", "DEFAULT"}, nil},
		{"virttext", "VARCHAR(30) GENERATED ALWAYS AS (CONCAT('ü', t1)) VIRTUAL", []string{"DEFAULT", "DEFAULT"}, nil},
		{"stored", "INT GENERATED ALWAYS AS (t1 + 1) STORED", []string{"DEFAULT", "DEFAULT"}, nil},
	}
}

// goldensOf returns the types of one kind of server. The text column after VECTOR has another character set than its
// neighbours.
func goldensOf(flavor string) []golden {
	if flavor == "mysql" {
		return []golden{
			{"vec", "VECTOR(3)", []string{"STRING_TO_VECTOR('[1,-2.5,0]')", "NULL"}, []string{"\x00\x00\x80?\x00\x00 \xc0\x00\x00\x00\x00", ""}},
			{"behind", "VARCHAR(20) CHARACTER SET latin1", []string{"'Äpfel'", "'ä'"}, nil},
			{"j", "JSON", []string{`'{"b": [1, 2.5, 1.0, true, null, "<ü> x"], "a": {"n": -1e+30}}'`, `JSON_OBJECT('d', CAST('1234567890123456789.50' AS DECIMAL(21,2)))`}, nil},
		}
	}
	return []golden{
		{"j", "JSON", []string{`'{"b": [1,  2.5, 1.0], "a": 1e+30}'`, `'"text"'`}, nil},
		{"uid", "UUID", []string{"'0198c0de-0000-7000-8000-000000000001'", "'123e4567-e89b-12d3-a456-426655440000'"}, nil},
		{"six", "INET6", []string{"'::1'", "'2001:db8::'"}, []string{"00000000-0000-0000-0000-000000000001", "20010db8-0000-0000-0000-000000000000"}},
		{"sixtext", "VARCHAR(39) GENERATED ALWAYS AS (CAST(six AS CHAR)) VIRTUAL", []string{"DEFAULT", "DEFAULT"}, []string{"::1", "2001:db8::"}},
		{"four", "INET4", []string{"'192.0.2.1'", "'10.0.0.0'"}, []string{"\xc0\x00\x02\x01", "\x0a\x00\x00\x00"}},
	}
}

// rarer are types that the native table does not have, with those that it has.
func rarer() []golden {
	return append(goldens(), []golden{
		{"d", "DECIMAL(20,5)", []string{"-123456789012345.67890", "0"}, nil},
		{"big", "DECIMAL(65,30)", []string{"12345678901234567890123456789012345.123456789012345678901234567890", "-0.000000000000000000000000000001"}, nil},
		{"f", "FLOAT", []string{"1234567.8", "-0.1"}, []string{"1234567.8", "-0.1"}},
		{"f2", "FLOAT(10,2)", []string{"1234567.8", "0.1"}, []string{"1234567.8", "0.1"}},
		{"g2", "DOUBLE(10,3)", []string{"1.5", "1e6"}, []string{"1.5", "1000000"}},
		{"g", "DOUBLE", []string{"3.141592653589793", "-1e-20"}, nil},
		{"y", "YEAR", []string{"2026", "0"}, nil},
		{"da", "DATE", []string{"'2026-01-02'", "'9999-12-31'"}, nil},
		{"ti", "TIME", []string{"'-838:59:59'", "'03:04:05'"}, nil},
		{"ti6", "TIME(6)", []string{"'03:04:05.000001'", "'-00:00:00.5'"}, nil},
		{"e", "ENUM('small','größer','with,comma')", []string{"'größer'", "'with,comma'"}, nil},
		{"elatin", "ENUM('klein','größer') CHARACTER SET latin1", []string{"'größer'", "'klein'"}, nil},
		{"s", "SET('a','b','c')", []string{"'a,c'", "''"}, nil},
		{"bit1", "BIT(1)", []string{"b'1'", "b'0'"}, []string{"1", "0"}},
		{"d99", "DECIMAL(9,9)", []string{"0.123456789", "-0.000000001"}, nil},
		{"d180", "DECIMAL(18,0)", []string{"999999999999999999", "-100000000000000000"}, nil},
		{"d134", "DECIMAL(13,4)", []string{"123456789.0001", "-1.5"}, nil},
		{"ti1", "TIME(1)", []string{"'-00:00:00.1'", "'838:59:58.9'"}, nil},
		{"dt5", "DATETIME(5)", []string{"'2026-01-02 03:04:05.00001'", "'2026-01-02 03:04:05.12345'"}, []string{"2026-01-02T03:04:05.00001Z", "2026-01-02T03:04:05.12345Z"}},
		{"elong", "ENUM('" + numbered(300) + "')", []string{"'n299'", "'n0'"}, nil},
		{"s64", "SET('" + numbered(64) + "')", []string{"'n0,n8,n63'", "'n31,n32'"}, nil},
		{"bit9", "BIT(9)", []string{"b'100000001'", "b'011111111'"}, []string{"257", "255"}},
		{"bit64", "BIT(64)", []string{"b'1111111111111111111111111111111111111111111111111111111111111111'", "b'101'"}, []string{"18446744073709551615", "5"}},
	}...)
}

// numbered are n names of an ENUM or a SET, without the quotes at either end.
func numbered(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	return strings.Join(names, "','")
}

// Each value of a column arrives as SELECT prints it, or as the database's page says.
//
//covers:binlogs 27 rows both
func TestTypes(t *testing.T) {
	for name, columns := range map[string][]golden{"native": goldens(), "rarer": rarer()} {
		t.Run(name, func(t *testing.T) {
			onEvery(t, func(d *database) {
				t := d.t
				columns := slices.Concat(columns, goldensOf(d.flavor))
				var ddl, first, second []string
				for _, g := range columns {
					ddl = append(ddl, "`"+g.name+"` "+g.ddl)
					first, second = append(first, g.values[0]), append(second, g.values[1])
				}
				d.exec("CREATE TABLE outbox (" + strings.Join(ddl, ", ") + ") CHARACTER SET utf8mb4")
				r := start(t, d.source(binlog.Options{FromNow: true}), none)
				d.session("SET time_zone = '+00:00'", "INSERT INTO outbox VALUES ("+strings.Join(first, ", ")+"), ("+strings.Join(second, ", ")+")",
					"INSERT INTO outbox (t1) VALUES (NULL)")
				rows := r.Await(3)
				for i, row := range rows[:2] {
					for _, g := range columns {
						want, null := d.printed(g, i)
						got, there := row[g.name]
						if got != want || there == null {
							t.Errorf("%s %s: %.80q (there: %t), want %.80q (NULL: %t)", g.ddl, g.values[i], got, there, want, null)
						}
					}
				}
				if len(rows[2]) != 0 {
					t.Errorf("a row of NULLs has %v", rows[2])
				}
				r.MustStop()
				if _, checked := binlog.Check(t.Context(), binlog.Options{Options: mysql.Options{DSN: func(context.Context) (string, error) { return d.dsn, nil }, Tables: []string{d.name + ".outbox"}}}, none); fmt.Sprint(checked[d.name+".outbox"].Columns) != fmt.Sprint(r.Columns()) {
					t.Errorf("check finds\n%v, the binlog has\n%v", checked[d.name+".outbox"].Columns, r.Columns())
				}
			})
		})
	}
}

// A column of an unsupported type stops the relay, also if it is NULL, because the columns behind it would be misread.
//
//covers:binlogs 27 messages both
func TestStopAtUnsupportedType(t *testing.T) {
	d := newDatabase(t, "mariadb")
	d.exec("CREATE TABLE outbox (id INT, packed VARCHAR(200) COMPRESSED, behind VARCHAR(300), price DECIMAL(10,2))")
	r := start(t, d.source(binlog.Options{FromNow: true}), none)
	d.exec("INSERT INTO outbox VALUES (1, NULL, 'text', 1.50)")
	if err := r.Ended(); cdc.ReasonOf(err) != "column_type" || !strings.Contains(err.Error(), "column packed of "+d.name+".outbox") {
		t.Error(err)
	}
}

// Tables of old MariaDB servers, and of those with mysql56_temporal_format = OFF, have other types for times. Of those with a fraction the
// binlog does not tell how many digits they have.
//
//covers:binlogs 27 rows both
func TestOldTimes(t *testing.T) {
	on(t, []string{"mariadb", "mariadb114", "mariadb118"}, func(d *database) {
		d.exec("SET GLOBAL mysql56_temporal_format = OFF")
		d.t.Cleanup(func() { _, _ = d.db.Exec("SET GLOBAL mysql56_temporal_format = ON") })
		d.exec("CREATE TABLE outbox (n INT, ti TIME, dt DATETIME, ts TIMESTAMP NULL, behind INT)")
		d.exec("CREATE TABLE exact (at DATETIME(6), behind INT)")
		tables := []string{d.name + ".outbox", d.name + ".exact"}
		r := start(d.t, d.source(binlog.Options{Options: mysql.Options{Tables: tables}, FromNow: true}), none)
		d.session("SET time_zone = '+00:00'", `INSERT INTO outbox VALUES (1, '-838:59:59', '2026-01-02 03:04:05', '2026-01-02 03:04:05', 1),
			(2, '-00:00:01', '1000-01-01 00:00:00', '2038-01-19 03:14:07', 2), (3, '12:00:00', '9999-12-31 23:59:59', NULL, 3)`)
		for i, want := range []string{
			"map[behind:1 dt:2026-01-02T03:04:05Z n:1 ti:-838:59:59 ts:2026-01-02T03:04:05Z]",
			"map[behind:2 dt:1000-01-01T00:00:00Z n:2 ti:-00:00:01 ts:2038-01-19T03:14:07Z]",
			"map[behind:3 dt:9999-12-31T23:59:59Z n:3 ti:12:00:00]",
		} {
			if got := fmt.Sprint(r.Await(3)[i]); got != want {
				d.t.Errorf("%s, want %s", got, want)
			}
		}
		if _, checked := binlog.Check(d.t.Context(), d.options(binlog.Options{}), none); fmt.Sprint(checked[tables[0]].Columns) != fmt.Sprint(r.Columns()) {
			d.t.Errorf("check finds\n%v, the binlog has\n%v", checked[tables[0]].Columns, r.Columns())
		}
		d.exec("INSERT INTO exact VALUES ('2026-01-02 03:04:05.123456', 1)")
		if err := r.Ended(); cdc.ReasonOf(err) != "row_unreadable" {
			d.t.Errorf("%v, want row_unreadable", err)
		}
		d.exec("SET GLOBAL mysql56_temporal_format = ON")
		d.exec("ALTER TABLE exact MODIFY at DATETIME(6)")
		r = start(d.t, d.source(binlog.Options{Options: mysql.Options{Tables: tables}, FromNow: true}), none)
		d.exec("INSERT INTO exact VALUES ('2026-01-02 03:04:05.123456', 1)")
		if got := r.Await(1)[0]["at"]; got != "2026-01-02T03:04:05.123456Z" {
			d.t.Error(got)
		}
	})
}

// printed returns the i-th row as SELECT prints it.
func (d *database) printed(g golden, i int) (text string, null bool) {
	d.t.Helper()
	if g.want != nil {
		return g.want[i], g.values[i] == "NULL"
	}
	var value *string
	shown := "CAST(`" + g.name + "` AS CHAR)"
	if g.ddl == "POINT" || g.ddl == "GEOMETRY" {
		shown = "`" + g.name + "`"
	}
	query := "SELECT " + shown + " FROM outbox WHERE t1 = " + []string{"-128", "127"}[i]
	d.scan(query, &value)
	if value == nil {
		return "", true
	}
	return *value, false
}
