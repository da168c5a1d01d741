package binlog

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/mysqljson"
)

// anyField draws a column of any type, and returns what draws its values.
func anyField(t *rapid.T, name string) (field, func(*rapid.T) string) {
	f := field{name: name}
	inBytes := func(n int) func(*rapid.T) string {
		return func(t *rapid.T) string {
			return string(rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "bytes"))
		}
	}
	text := func(size, limit int) func(*rapid.T) string {
		f.charset = rapid.SampledFrom([]mysql.Charset{mysql.CharsetUTF8, mysql.CharsetLatin1, mysql.CharsetBinary}).Draw(t, "charset")
		return func(t *rapid.T) string {
			return counted(size, string(rapid.SliceOfN(rapid.Byte(), 0, limit).Draw(t, "bytes")))
		}
	}
	integers := map[byte]int{gomysql.MYSQL_TYPE_TINY: 1, gomysql.MYSQL_TYPE_SHORT: 2, gomysql.MYSQL_TYPE_INT24: 3, gomysql.MYSQL_TYPE_LONG: 4, gomysql.MYSQL_TYPE_LONGLONG: 8}
	f.tp = rapid.SampledFrom([]byte{
		gomysql.MYSQL_TYPE_TINY, gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_INT24, gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_LONGLONG,
		gomysql.MYSQL_TYPE_FLOAT, gomysql.MYSQL_TYPE_DOUBLE, gomysql.MYSQL_TYPE_NEWDECIMAL, gomysql.MYSQL_TYPE_BIT, gomysql.MYSQL_TYPE_YEAR,
		gomysql.MYSQL_TYPE_DATE, gomysql.MYSQL_TYPE_TIME, gomysql.MYSQL_TYPE_TIME2, gomysql.MYSQL_TYPE_DATETIME, gomysql.MYSQL_TYPE_DATETIME2,
		gomysql.MYSQL_TYPE_TIMESTAMP, gomysql.MYSQL_TYPE_TIMESTAMP2, gomysql.MYSQL_TYPE_STRING, gomysql.MYSQL_TYPE_VAR_STRING,
		gomysql.MYSQL_TYPE_VARCHAR, gomysql.MYSQL_TYPE_BLOB, gomysql.MYSQL_TYPE_ENUM, gomysql.MYSQL_TYPE_SET, gomysql.MYSQL_TYPE_JSON,
		gomysql.MYSQL_TYPE_GEOMETRY,
	}).Draw(t, "type")
	switch f.tp {
	case gomysql.MYSQL_TYPE_FLOAT:
		f.meta = "\x04"
		return f, inBytes(4)
	case gomysql.MYSQL_TYPE_DOUBLE:
		f.meta = "\x08"
		return f, inBytes(8)
	case gomysql.MYSQL_TYPE_NEWDECIMAL:
		precision := rapid.IntRange(1, 65).Draw(t, "precision")
		scale := rapid.IntRange(0, min(precision, 30)).Draw(t, "scale")
		f.meta = string([]byte{byte(precision), byte(scale)})
		return f, func(t *rapid.T) string { return anyDecimal(t, precision-scale, scale) }
	case gomysql.MYSQL_TYPE_BIT:
		bits := rapid.IntRange(1, 64).Draw(t, "bits")
		f.meta = string([]byte{byte(bits % 8), byte(bits / 8)})
		return f, inBytes((bits + 7) / 8)
	case gomysql.MYSQL_TYPE_YEAR:
		return f, inBytes(1)
	case gomysql.MYSQL_TYPE_DATE:
		return f, func(t *rapid.T) string {
			return lowest(3, uint64(number(t, 9999)<<9|number(t, 12)<<5|number(t, 31)))
		}
	case gomysql.MYSQL_TYPE_TIME:
		return f, func(t *rapid.T) string { return lowest(3, uint64(number(t, 838)*1e4+number(t, 59)*100+number(t, 59))) }
	case gomysql.MYSQL_TYPE_DATETIME:
		return f, func(t *rapid.T) string {
			date, clock := number(t, 9999)*1e4+number(t, 12)*100+number(t, 31), number(t, 23)*1e4+number(t, 59)*100+number(t, 59)
			return lowest(8, uint64(date*1e6+clock))
		}
	case gomysql.MYSQL_TYPE_TIMESTAMP:
		return f, inBytes(4)
	case gomysql.MYSQL_TYPE_TIME2, gomysql.MYSQL_TYPE_DATETIME2, gomysql.MYSQL_TYPE_TIMESTAMP2:
		digits := rapid.IntRange(0, 6).Draw(t, "digits")
		f.meta = string([]byte{byte(digits)})
		return f, func(t *rapid.T) string { return anyTime(t, f.tp, digits) }
	case gomysql.MYSQL_TYPE_STRING:
		f.meta = "\xfe\x28" // CHAR or BINARY of 40 bytes
		if rapid.Bool().Draw(t, "long") {
			f.meta = "\xce\x2c" // of 300
			return f, text(2, 300)
		}
		return f, text(1, 40)
	case gomysql.MYSQL_TYPE_VARCHAR, gomysql.MYSQL_TYPE_VAR_STRING:
		f.meta = "\x10\x00"
		if rapid.Bool().Draw(t, "long") {
			f.meta = "\x00\x01"
			return f, text(2, 256)
		}
		return f, text(1, 16)
	case gomysql.MYSQL_TYPE_BLOB, gomysql.MYSQL_TYPE_GEOMETRY, gomysql.MYSQL_TYPE_JSON:
		size := rapid.IntRange(1, 4).Draw(t, "size")
		f.meta = string([]byte{byte(size)})
		values := text(size, 255)
		if f.tp != gomysql.MYSQL_TYPE_BLOB {
			f.charset = 0
		}
		return f, values
	case gomysql.MYSQL_TYPE_ENUM, gomysql.MYSQL_TYPE_SET:
		return anyList(t, f)
	}
	f.unsigned = rapid.Bool().Draw(t, "unsigned")
	return f, inBytes(integers[f.tp])
}

// anyList draws an ENUM or a SET. Values may be beyond its names.
func anyList(t *rapid.T, f field) (field, func(*rapid.T) string) {
	f.charset = rapid.SampledFrom([]mysql.Charset{mysql.CharsetUTF8, mysql.CharsetLatin1}).Draw(t, "charset")
	count := rapid.SampledFrom([]int{1, 8, 64, 300}).Draw(t, "names")
	size := (count + 7) / 8
	if f.tp == gomysql.MYSQL_TYPE_ENUM {
		size = 1 + count>>8
	} else if count > 64 {
		count, size = 64, 8
	}
	for i := range count {
		f.names = append(f.names, fmt.Sprintf("n\xe4me%d", i))
	}
	f.tp, f.meta = gomysql.MYSQL_TYPE_STRING, string([]byte{f.tp, byte(size)})
	return f, func(t *rapid.T) string { return string(rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "bytes")) }
}

// anyRows draws columns, their table map, and an event of rows.
func anyRows(t *rapid.T) (fields []field, table, rows event) {
	var draw []func(*rapid.T) string
	for i := range rapid.IntRange(1, 12).Draw(t, "columns") {
		f, values := anyField(t, fmt.Sprint("c", i))
		fields, draw = append(fields, f), append(draw, values)
	}
	images := ""
	for range rapid.IntRange(1, 4).Draw(t, "rows") {
		values := make([]string, len(fields))
		for i := range fields {
			if values[i] = "NULL"; rapid.IntRange(0, 9).Draw(t, "null") > 0 {
				values[i] = draw[i](t)
			}
		}
		images += image(values)
	}
	return fields, tableMap(fields), rowsOf(len(fields), images)
}

func number(t *rapid.T, limit int) int { return rapid.IntRange(0, limit).Draw(t, "n") }

// lowest returns the lowest bytes of v, the lowest first.
func lowest(size int, v uint64) string {
	return string(binary.LittleEndian.AppendUint64(nil, v)[:size])
}

func highest(size int, v uint64) string {
	return string(binary.BigEndian.AppendUint64(nil, v<<(64-8*size))[:size])
}

// anyTime draws a TIME2, DATETIME2 or TIMESTAMP2.
func anyTime(t *rapid.T, tp byte, digits int) string {
	pairs := (digits + 1) / 2
	scale := 1
	for range digits {
		scale *= 10
	}
	fraction := number(t, scale-1)
	if digits%2 == 1 {
		fraction *= 10
	}
	clock := number(t, 59)<<6 | number(t, 59)
	switch tp {
	case gomysql.MYSQL_TYPE_TIMESTAMP2:
		return highest(4, uint64(rapid.Uint32().Draw(t, "seconds"))) + highest(pairs, uint64(fraction))
	case gomysql.MYSQL_TYPE_DATETIME2:
		date := (number(t, 9999)*13+number(t, 12))<<5 | number(t, 31)
		return highest(5, 1<<39|uint64(date<<17|number(t, 23)<<12|clock)) + highest(pairs, uint64(fraction))
	}
	v := int64(number(t, 838)<<12|clock)<<(8*pairs) | int64(fraction)
	if rapid.Bool().Draw(t, "negative") {
		v = -v
	}
	return highest(3+pairs, uint64(v+1<<(23+8*pairs)))
}

// anyDecimal draws a DECIMAL with so many digits before and behind the point (decimal2bin in strings/decimal.cc).
func anyDecimal(t *rapid.T, whole, fraction int) string {
	var b []byte
	group := func(digits int) {
		limit := 1
		for range digits {
			limit *= 10
		}
		b = append(b, highest((digits+1)/2-digits/9, uint64(number(t, limit-1)))...)
	}
	group(whole % 9)
	for range whole/9 + fraction/9 {
		group(9)
	}
	group(fraction % 9)
	b[0] ^= 0x80
	if rapid.Bool().Draw(t, "negative") {
		for i := range b {
			b[i] ^= 0xff
		}
	}
	return string(b)
}

// Values of every type are those of go-mysql's general decoder, which takes a row apart into values of Go.
func TestRowsAreThoseOfTheGeneralDecoder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fields, table, e := anyRows(rt)
		s, want := learned(t, table), generalRows(rt, table, e)
		r, err := openRows(e, s)
		for row := 0; err == nil && len(r.data) > 0; row++ {
			var arena []byte
			var spans []cdc.Span
			if r, arena, spans, err = s.next(r, arena, spans); err != nil {
				break
			}
			for i := range fields {
				got, null := "", spans[i].Len < 0
				if !null {
					got = string(arena[spans[i].Off:][:spans[i].Len])
				}
				v := want[row][i]
				if null != (v == nil) || !null && got != printed(&s.columns[i], v) {
					rt.Fatalf("%+v: %q, want %q", fields[i], got, printed(&s.columns[i], v))
				}
			}
			want[row] = nil
		}
		if err != nil || want[len(want)-1] != nil {
			rt.Fatalf("%v", err)
		}
	})
}

// A description that no server writes makes the table unreadable.
func TestDescriptionsThatCannotBeRead(t *testing.T) {
	for _, tt := range []struct {
		name string
		tp   byte
		meta uint16
	}{
		{"length of no bytes", gomysql.MYSQL_TYPE_BLOB, 0},
		{"length of 8 bytes", gomysql.MYSQL_TYPE_BLOB, 8},
		{"document behind 5", gomysql.MYSQL_TYPE_JSON, 5},
		{"ENUM of 3", gomysql.MYSQL_TYPE_STRING, uint16(gomysql.MYSQL_TYPE_ENUM)<<8 | 3},
		{"SET of 9", gomysql.MYSQL_TYPE_STRING, uint16(gomysql.MYSQL_TYPE_SET)<<8 | 9},
		{"BIT(0)", gomysql.MYSQL_TYPE_BIT, 0},
		{"BIT(65)", gomysql.MYSQL_TYPE_BIT, 1<<8 | 64},
		{"DECIMAL(0)", gomysql.MYSQL_TYPE_NEWDECIMAL, 0},
		{"DECIMAL(5,6)", gomysql.MYSQL_TYPE_NEWDECIMAL, 5<<8 | 6},
		{"DECIMAL(200)", gomysql.MYSQL_TYPE_NEWDECIMAL, 200 << 8},
		{"TIME(7)", gomysql.MYSQL_TYPE_TIME2, 7},
		{"DATETIME(256)", gomysql.MYSQL_TYPE_DATETIME2, 256},
		{"compressed", 141, 0},
	} {
		if c := columnOf(tt.tp, tt.meta, false, mysql.CharsetBinary); c.kind != kindUnknown {
			t.Errorf("%s is read: %+v", tt.name, c)
		}
	}
}

// Old times have a sign. What cannot be a time in the old form is one in another, whose size is the same.
func TestOldTimes(t *testing.T) {
	for _, tt := range []struct {
		tp         byte
		data, want string // "": none
	}{
		{gomysql.MYSQL_TYPE_TIME, lowest(3, 1<<24-8385959), "-838:59:59"},
		{gomysql.MYSQL_TYPE_TIME, lowest(3, 1<<24-1), "-00:00:01"},
		{gomysql.MYSQL_TYPE_DATETIME, lowest(8, 99991231235959), "9999-12-31 23:59:59"},
		{gomysql.MYSQL_TYPE_DATETIME, lowest(8, 99991231235960), ""},
	} {
		c := columnOf(tt.tp, 0, false, mysql.CharsetBinary)
		got, n := c.value(nil, []byte(tt.data))
		if string(got) != tt.want || (n < 0) != (tt.want == "") {
			t.Errorf("%x: %q, %d, want %q", tt.data, got, n, tt.want)
		}
	}
}

// generalRows has go-mysql decode rows.
func generalRows(t *rapid.T, table, rows event) [][]any {
	d := newDump(nil, "", &dialer{flavor: "mysql"})
	if err := d.format(formatEvent()); err != nil {
		t.Fatal(err)
	}
	m, err := d.parse(table)
	if err != nil {
		t.Fatal(err)
	}
	types := m.Event.(*replication.TableMapEvent).ColumnType
	for i, tp := range types {
		if tp == gomysql.MYSQL_TYPE_JSON {
			types[i] = gomysql.MYSQL_TYPE_BLOB // to have the document's bytes
		}
	}
	parsed, err := d.parse(rows)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Event.(*replication.RowsEvent).Rows
}

// printed is a value as go-mysql hands it out in the column's text.
func printed(c *column, v any) string {
	switch v := v.(type) {
	case string:
		if _, fraction, found := strings.Cut(v, "."); found && (c.kind == kindDatetime || c.kind == kindTimestamp) {
			return strings.TrimSuffix(strings.TrimSuffix(v, fraction)+strings.TrimRight(fraction, "0"), ".")
		}
		return textOf(c, v)
	case []byte:
		return textOf(c, string(v))
	case float32:
		return string(mysqljson.AppendFloat(nil, float64(v), 32))
	case float64:
		return string(mysqljson.AppendFloat(nil, v, 64))
	case int64:
		return integerOf(c, v)
	case int:
		if c.kind == kindYear {
			return fmt.Sprintf("%04d", v)
		}
	}
	return fmt.Sprint(v)
}

// integerOf is an integer, or names.
func integerOf(c *column, v int64) string {
	var names []string
	for i, name := range c.names {
		if c.kind == kindEnum && v == int64(i+1) || c.kind == kindSet && v&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if c.kind == kindBit {
		return strconv.FormatUint(uint64(v), 10)
	}
	if c.kind == kindEnum || c.kind == kindSet {
		return strings.Join(names, ",")
	}
	return strconv.FormatInt(v, 10)
}

// textOf is text in UTF-8, or bytes.
func textOf(c *column, v string) string {
	if (c.kind == kindString || c.kind == kindBlob) && c.charset == mysql.CharsetLatin1 {
		return string(appendLatin1(nil, []byte(v)))
	}
	if c.kind == kindString && len(v) < c.pad {
		v += strings.Repeat("\x00", c.pad-len(v))
	}
	return v
}
