package binlog

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// JSON documents are printed as SELECT prints them. MySQL stores them in a binary form; those of table updated have gaps, because they were
// updated in place.
func TestJSON(t *testing.T) {
	d := newDatabase(t, "mysql")
	d.exec(`CREATE TABLE outbox (id INT PRIMARY KEY, doc JSON); CREATE TABLE updated (id INT PRIMARY KEY, doc JSON);
		CREATE TABLE typed (f FLOAT, b BIT(10), y YEAR, e ENUM('ä','b'), s SET('x','y'), ts TIMESTAMP(3) NULL, bl LONGBLOB, g POINT);
		INSERT INTO typed VALUES (1234567.8, b'1000000001', 2026, 'ä', 'x,y', '2026-01-02 03:04:05.678', REPEAT(X'00ff', 100), POINT(1, 2))`)
	var rows []string
	for i, expression := range append(specialJSON(), randomJSON(300)...) {
		rows = append(rows, fmt.Sprintf("(%d, %s)", i, expression))
	}
	tables := []string{d.name + ".outbox", d.name + ".updated"}
	r := start(t, d.source(binlog.Options{Options: mysql.Options{Tables: tables}, FromNow: true}), none)
	d.session("SET sql_mode = ''", "INSERT INTO outbox VALUES "+strings.Join(rows, ", "))
	printed := d.documents("outbox")
	d.exec(`UPDATE outbox SET doc = JSON_REPLACE(doc, '$.replaced', 'b') WHERE JSON_CONTAINS_PATH(doc, 'one', '$.replaced');
		UPDATE outbox SET doc = JSON_REMOVE(doc, '$.removed') WHERE JSON_CONTAINS_PATH(doc, 'one', '$.removed');
		INSERT INTO updated SELECT id, doc FROM outbox ORDER BY id`)
	printed = append(printed, d.documents("updated")...)
	got := r.Await(2 * len(rows))
	for i, row := range got {
		if row["doc"] != printed[i] {
			t.Errorf("%.300s:\n%.500q, want\n%.500q", rows[i%len(rows)], row["doc"], printed[i])
		}
	}
	if len(got) != len(printed) {
		t.Errorf("%d rows, want %d", len(got), len(printed))
	}
}

// documents returns the documents as SELECT prints them, by ID.
func (d *database) documents(table string) []string {
	d.t.Helper()
	rows, err := d.db.QueryContext(context.WithoutCancel(d.t.Context()), "SELECT CAST(doc AS CHAR) FROM "+table+" ORDER BY id")
	testenv.Must(d.t, err)
	defer rows.Close()
	var printed []string
	for rows.Next() {
		var text string
		testenv.Must(d.t, rows.Scan(&text))
		printed = append(printed, text)
	}
	testenv.Must(d.t, rows.Err())
	return printed
}

// specialJSON returns SQL expressions of documents with every kind of value.
func specialJSON() []string {
	texts := []string{
		`1234567890123456789.5`, `{"b": [1, 2.5, 1.0, true, false, null], "a": {"n": -1e+30}, "": {}, "bb": [], "ab": ""}`,
		`"<a href=\"x\">&\u2028\u2029</a> \\ / \b\f\n\r\t\u0000\u001f\u007f ü 日本語 🚀"`, `{"<&>\n\"": 1}`,
		`[1e-7, 1e-15, 9.9e-16, -1.2345678901234567e-15, 999999999999999.9, 1e14, 1e15, 123456789012345680, 1e100, 5e-324, 1.7976931348623157e308, 0.1]`,
		`[0, -0, -0.0, 0.0, 1, -1, 32767, -32768, 32768, 65535, 65536, -32769, 2147483647, -2147483648, 2147483648, 4294967295, 4294967296]`,
		`[9223372036854775807, -9223372036854775808, 9223372036854775808, 18446744073709551615, 18446744073709551616]`,
		`true`, `null`, `7`, `"text"`, `1.0`, `{}`, `[]`, `{"replaced": "a longer text", "z": [1, {"y": "2"}], "removed": {"x": [1, 2, 3]}}`,
		strings.Repeat("[", 100) + strings.Repeat("]", 100), strings.Repeat(`{"a":`, 99) + "1" + strings.Repeat("}", 99),
	}
	var large []string // with four-byte values inside the entries
	for i := range 4000 {
		large = append(large, fmt.Sprintf(`"k%d": [%d, %d, null, "%d"]`, i, i*1000, -i*100000, i))
	}
	texts = append(texts, "{"+strings.Join(large, ", ")+"}", "["+strings.Repeat("100000, ", 30000)+"true]")
	var expressions []string
	for _, text := range texts {
		expressions = append(expressions, "CAST("+stringSQL(text)+" AS JSON)")
	}
	return append(expressions,
		`JSON_OBJECT('long', REPEAT('x', 70000), 'short', REPEAT('y', 200), 'longer', REPEAT('"', 20000))`,
		`CAST(CAST('1234567890123456789.5' AS DECIMAL(20,1)) AS JSON)`, `CAST(1.50 AS JSON)`,
		`JSON_ARRAY(CAST(0 AS DECIMAL(1)), CAST(-0.05 AS DECIMAL(3,3)), 0.000000000000000000000000000001, -12345678901234567890123456789012345.123456789012345678901234567890, 999999999, -1000000000.1, 99999999999999999999999999999999999999999999999999999999999999999)`,
		`JSON_ARRAY(CAST('2026-01-02' AS DATE), CAST('0000-00-00' AS DATE), CAST('9999-12-31' AS DATE))`,
		`JSON_ARRAY(CAST('03:04:05' AS TIME), CAST('-838:59:59' AS TIME), CAST('100:00:00.5' AS TIME(6)), CAST('-00:00:00.000001' AS TIME(6)), CAST('0' AS TIME))`,
		`JSON_ARRAY(CAST('2026-01-02 03:04:05.000001' AS DATETIME(6)), CAST('0000-00-00' AS DATETIME), CAST('1000-01-01 23:59:59' AS DATETIME))`,
		`(SELECT JSON_OBJECT('f', f, 'b', b, 'y', y, 'e', e, 's', s, 'ts', ts, 'bl', bl, 'g', g) FROM typed)`,
		`JSON_ARRAY(X'', X'00', REPEAT(X'01', 57), REPEAT(X'02', 58), REPEAT(X'03', 114), REPEAT(X'04', 70000))`)
}

func stringSQL(text string) string { return fmt.Sprintf("CONVERT(X'%x' USING utf8mb4)", text) }

func randomJSON(n int) []string {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	var expressions []string
	for range n {
		expressions = append(expressions, "JSON_ARRAY("+g.document(3)+")")
	}
	return expressions
}

// generator generates SQL expressions of documents.
type generator struct{ *rand.Rand }

func (g generator) document(depth int) string {
	var members []string
	switch kind := g.IntN(10); {
	case depth == 0 || kind < 2:
		return g.scalar()
	case kind < 6:
		for range g.IntN(6) {
			members = append(members, g.document(depth-1))
		}
		return "JSON_ARRAY(" + strings.Join(members, ", ") + ")"
	}
	for range g.IntN(6) {
		members = append(members, g.text(12)+", "+g.document(depth-1))
	}
	return "JSON_OBJECT(" + strings.Join(members, ", ") + ")"
}

func (g generator) scalar() string {
	switch g.IntN(10) {
	case 0:
		return []string{"NULL", "TRUE", "CAST('true' AS JSON)", "CAST('false' AS JSON)"}[g.IntN(4)]
	case 1:
		return strconv.FormatInt(int64(g.Uint64())>>g.IntN(64), 10)
	case 2:
		return strconv.FormatUint(g.Uint64()>>g.IntN(64), 10)
	case 3:
		return strconv.FormatFloat(math.Ldexp(g.Float64()-0.5, g.IntN(140)-70), 'e', g.IntN(18)-1, 64)
	case 4:
		return strconv.FormatFloat(math.Ldexp(g.Float64()-0.5, g.IntN(2000)-1000), 'e', -1, 64)
	case 5:
		return g.decimal()
	case 6:
		return fmt.Sprintf("CAST('%04d-%02d-%02d %02d:%02d:%02d.%06d' AS %s(6))",
			g.IntN(9000)+1000, g.IntN(12)+1, g.IntN(28)+1, g.IntN(24), g.IntN(60), g.IntN(60), g.IntN(1e6), []string{"DATETIME", "TIME"}[g.IntN(2)])
	case 7:
		data := make([]byte, g.IntN(200))
		for i := range data {
			data[i] = byte(g.Uint32())
		}
		return fmt.Sprintf("X'%x'", data)
	}
	return g.text(200)
}

func (g generator) decimal() string {
	scale := g.IntN(31)
	whole := g.IntN(66 - scale)
	digits := make([]byte, max(whole+scale, 1))
	for i := range digits {
		digits[i] = byte('0' + g.IntN(10))
	}
	cut := len(digits) - min(scale, len(digits))
	return fmt.Sprintf("CAST('%s%s.%s' AS DECIMAL(%d,%d))", []string{"", "-"}[g.IntN(2)], digits[:cut], digits[cut:], len(digits), min(scale, len(digits)))
}

// text returns a random string, mostly of characters that must be escaped.
func (g generator) text(limit int) string {
	runes := make([]rune, g.IntN(limit))
	for i := range runes {
		switch g.IntN(4) {
		case 0:
			runes[i] = g.Int32N(0x20)
		case 1:
			runes[i] = []rune(`"\/<>&'{}[]:, `)[g.IntN(14)]
		case 2:
			runes[i] = 0x20 + g.Int32N(0x60)
		default:
			runes[i] = []rune{0xe4, 0x2028, 0xfffd, 0x1f680, 0x10ffff, 0xd7ff, 0xe000}[g.IntN(7)]
		}
	}
	return stringSQL(string(runes))
}
