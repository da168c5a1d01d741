package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"golang.org/x/text/encoding/charmap"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

var (
	errTruncated = errors.New("truncated event")
	errEnded     = errors.New("read binlog: the server ended it, it is shutting down")
	errMalformed = errors.New("truncated or malformed value")
)

// event is one event of the binlog: a header of 19 bytes and a body. Its bytes belong to the reader.
type event struct {
	raw []byte
}

const eventHeader = replication.EventHeaderSize

func (e event) kind() replication.EventType { return replication.EventType(e.raw[4]) }
func (e event) body() []byte                { return e.raw[eventHeader:] }
func (e event) seconds() uint32             { return binary.LittleEndian.Uint32(e.raw) }

// ignorable is a flag of events that a reader may leave out (LOG_EVENT_IGNORABLE_F).
func (e event) ignorable() bool { return binary.LittleEndian.Uint16(e.raw[17:])&0x80 != 0 }

// between reports whether an event of its kind begins a transaction or stands between two.
func (e event) between() bool {
	switch e.kind() { //nolint:exhaustive // the rest belongs to a transaction
	case replication.GTID_EVENT, replication.GTID_TAGGED_LOG_EVENT, replication.MARIADB_GTID_EVENT, replication.ANONYMOUS_GTID_EVENT,
		replication.FORMAT_DESCRIPTION_EVENT, replication.ROTATE_EVENT, replication.HEARTBEAT_EVENT, replication.HEARTBEAT_LOG_EVENT_V2,
		replication.INCIDENT_EVENT:
		return true
	}
	return false
}

// artificial is a flag of events that are not in the file (LOG_EVENT_ARTIFICIAL_F).
func (e event) artificial() bool { return binary.LittleEndian.Uint16(e.raw[17:])&0x20 != 0 }

// tableID of a table map or of rows.
func (e event) tableID() uint64 {
	b := e.body()
	if len(b) < 8 {
		return 0
	}
	return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint16(b[4:]))<<32
}

// tableName reads schema and name of a table map: two bytes of flags, then each name behind its length and
// followed by a zero.
func (e event) tableName() (string, error) {
	b := e.body()
	if len(b) < 9 {
		return "", fmt.Errorf("decode table map: %w", errTruncated)
	}
	schema := int(b[8])
	if len(b) < 11+schema {
		return "", fmt.Errorf("decode table map: %w", errTruncated)
	}
	name := int(b[10+schema])
	if len(b) < 11+schema+name {
		return "", fmt.Errorf("decode table map: %w", errTruncated)
	}
	return string(b[9:9+schema]) + "." + strings.TrimPrefix(string(b[11+schema:11+schema+name]), oldName), nil
}

// oldName is before a name that a statement gave as servers before 5.1 encoded it; MariaDB 11.4.5 still knows every table by that
// name too, and logs it.
const oldName = "#mysql50#"

// schema is a tracked table as its table map describes it.
type schema struct {
	body    []byte // of the table map
	table   *cdc.Table
	columns []column
	general bool // go-mysql's general decoder is needed
	foreign bool // a column is in a character set that is not known here; see legible
	// compared is set once rows are known to have every column that is needed, or the catalog was read because those behind the table map
	// with the id lack one; see compareWithCatalog.
	compared bool
	id       uint64
}

// schemaOf makes a schema of a table map. charsets are by id of the collation.
func schemaOf(t *replication.TableMapEvent, body []byte, charsets map[uint64]mysql.Charset) (*schema, error) {
	s := &schema{body: bytes.Clone(body), table: &cdc.Table{Schema: string(t.Schema), Name: string(t.Table)}}
	names := t.ColumnNameString()
	if len(names) != int(t.ColumnCount) {
		return nil, content("row_metadata", setFull("binlog_row_metadata"),
			"table map of %s.%s carries no column names: binlog_row_metadata was not FULL, and events written without it cannot be read", t.Schema, t.Table)
	}
	if len(names) == 0 { // rows without columns would have no end
		return nil, fmt.Errorf("decode table map of %s.%s: it has no columns", t.Schema, t.Table)
	}
	countVectors(t.ColumnType)
	unsigned, collations, listed := t.UnsignedMap(), t.CollationMap(), t.EnumSetCollationMap()
	enums, sets := t.EnumStrValueMap(), t.SetStrValueMap()
	for i, name := range names {
		collation, text := collations[i]
		if !text {
			collation, text = listed[i]
		}
		cs := mysql.CharsetBinary
		if text {
			cs = charsets[collation]
		}
		c := columnOf(t.ColumnType[i], t.ColumnMeta[i], unsigned[i], cs)
		if !readable(c.real) {
			return nil, content("column_type", fmt.Sprintf(
				"give it another one (ALTER TABLE %s.%s MODIFY ...; of a COMPRESSED column the same without COMPRESSED)", mysql.QuoteName(s.table.Schema), mysql.QuoteName(s.table.Name)),
				"column %s of %s has a type that cannot be read (%d)", name, s.table, c.real)
		}
		if c.kind == kindJSON {
			t.ColumnType[i] = gomysql.MYSQL_TYPE_BLOB // has go-mysql hand out the bytes
		}
		c.names = namesOf(append(enums[i], sets[i]...), cs)
		_, length := realType(t.ColumnType[i], t.ColumnMeta[i])
		s.general = s.general || c.kind == kindOther
		s.columns = append(s.columns, c)
		s.table.Columns = append(s.table.Columns, cdc.Column{Name: name, Form: c.form(length)})
		if text && cs == mysql.CharsetUnknown {
			s.table.Columns[i].Form, s.foreign = cdc.FormForeign, true
		}
	}
	return s, nil
}

// setFull is what to do about rows that were logged with less than they need.
func setFull(setting string) string {
	return "SET PERSIST " + setting + " = FULL (on MariaDB SET GLOBAL, and the same in the server's configuration)"
}

func namesOf(names []string, cs mysql.Charset) []string {
	if cs == mysql.CharsetLatin1 {
		for i, name := range names {
			names[i] = string(appendLatin1(nil, []byte(name)))
		}
	}
	return names
}

// rows is the body of an event of inserted rows, cut open.
type rows struct {
	data  []byte // row images, one behind the other
	nulls int    // bytes of each image's bitmap of NULLs
}

// openRows reads what precedes the images: table id (6), flags (2), in version 2 extra data behind its length
// (2, counting itself), the number of columns, and the bitmap of those that are there.
func openRows(e event, s *schema) (rows, error) {
	b := e.body()
	off := 8
	if e.kind() == replication.WRITE_ROWS_EVENTv2 {
		if len(b) < 10 {
			return rows{}, fmt.Errorf("decode rows of %s: %w", s.table, errTruncated)
		}
		off += int(binary.LittleEndian.Uint16(b[8:]))
	}
	if off >= len(b) {
		return rows{}, fmt.Errorf("decode rows of %s: %w", s.table, errTruncated)
	}
	count, n := lengthEncoded(b[off:])
	off += n
	bitmap := (len(s.columns) + 7) / 8
	if count != uint64(len(s.columns)) || off+bitmap > len(b) {
		return rows{}, fmt.Errorf("rows of %s have %d columns, their table map %d", s.table, count, len(s.columns))
	}
	for i := range s.columns {
		if b[off+i/8]&(1<<(i%8)) == 0 {
			return rows{}, content("row_image", setFull("binlog_row_image"),
				"rows of %s were logged without column %s: binlog_row_image of the server, or of the session that wrote them, was not FULL", s.table, s.table.Columns[i].Name)
		}
	}
	data := b[off+bitmap:]
	if e.kind() == replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1 {
		var err error
		if data, err = gomysql.DecompressMariadbData(data); err != nil {
			return rows{}, fmt.Errorf("decode compressed rows of %s: %w", s.table, err)
		}
	}
	return rows{data: data, nulls: bitmap}, nil
}

// next appends the next row's values to arena and their places to spans. It returns what is left.
func (s *schema) next(r rows, arena []byte, spans []cdc.Span) (rows, []byte, []cdc.Span, error) {
	if len(r.data) < r.nulls {
		return r, arena, spans, fmt.Errorf("decode rows of %s: %w", s.table, errTruncated)
	}
	nulls, data := r.data[:r.nulls], r.data[r.nulls:]
	for i := range s.columns {
		if nulls[i/8]&(1<<(i%8)) != 0 {
			spans = append(spans, cdc.Span{Len: -1})
			continue
		}
		start := len(arena)
		var n int
		arena, n = s.columns[i].value(arena, data)
		if n < 0 {
			return r, arena, spans, fmt.Errorf("decode column %s of %s: %w", s.table.Columns[i].Name, s.table, errMalformed)
		}
		data = data[n:]
		spans = append(spans, cdc.Span{Off: int32(start), Len: int32(len(arena) - start)})
	}
	r.data = data
	return r, arena, spans, nil
}

// value appends the value at the front of data and returns how many bytes it took there, or -1 when
// they are not all there or make no value.
func (c *column) value(arena, data []byte) ([]byte, int) {
	switch c.kind { //nolint:exhaustive // what is left begins with its length
	case kindInt, kindUint:
		if len(data) < c.size {
			return arena, -1
		}
		return c.integer(arena, data), c.size
	case kindDatetime:
		return appendDatetime(arena, data, c.size)
	case kindTimestamp:
		return appendTimestamp(arena, data, c.size)
	}
	if len(data) < c.size {
		return arena, -1
	}
	length := int(littleEndian(data, c.size))
	if length > len(data)-c.size {
		return arena, -1
	}
	bytes := data[c.size : c.size+length]
	if c.kind == kindJSON {
		arena, err := appendJSON(arena, bytes)
		if err != nil {
			return arena, -1
		}
		return arena, c.size + length
	}
	return c.text(arena, bytes), c.size + length
}

func littleEndian(data []byte, size int) uint64 {
	var v uint64
	for i := range size {
		v |= uint64(data[i]) << (8 * i)
	}
	return v
}

func (c *column) integer(arena, data []byte) []byte {
	v := littleEndian(data, c.size)
	if c.kind == kindUint {
		return strconv.AppendUint(arena, v, 10)
	}
	shift := 64 - 8*c.size
	return strconv.AppendInt(arena, int64(v<<shift)>>shift, 10)
}

// text appends bytes of a character or binary column.
func (c *column) text(arena, bytes []byte) []byte {
	if c.charset == mysql.CharsetLatin1 {
		return appendLatin1(arena, bytes)
	}
	arena = append(arena, bytes...)
	for n := len(bytes); n < c.pad; n++ {
		arena = append(arena, 0)
	}
	return arena
}

// appendLatin1 turns MySQL's latin1, which is Windows-1252 with the five free places as control characters,
// into UTF-8.
func appendLatin1(arena, bytes []byte) []byte {
	for _, b := range bytes {
		r := charmap.Windows1252.DecodeByte(b)
		if r == '\uFFFD' {
			r = rune(b)
		}
		arena = append(arena, string(r)...)
	}
	return arena
}

// appendDatetime reads DATETIME2: big-endian, 1 bit of sign, 17 of year*13+month, 5 of day, 5 of hour, 6 of
// minute, 6 of second, then the fraction (my_datetime_packed_from_binary in mysys/my_time.cc).
func appendDatetime(arena, data []byte, digits int) ([]byte, int) {
	n := 5 + (digits+1)/2
	if len(data) < n {
		return arena, -1
	}
	packed := int64(data[0])<<32 | int64(binary.BigEndian.Uint32(data[1:]))
	packed -= 0x8000000000
	date, clock := packed>>17, int(packed&(1<<17-1))
	months := int(date >> 5)
	arena = appendDate(arena, months/13, months%13, int(date&31))
	arena = appendClock(append(arena, ' '), clock>>12, clock>>6&63, clock&63)
	return appendFraction(arena, data[5:n], digits), n
}

// appendTimestamp reads TIMESTAMP2: big-endian seconds since 1970, then the fraction.
func appendTimestamp(arena, data []byte, digits int) ([]byte, int) {
	n := 4 + (digits+1)/2
	if len(data) < n {
		return arena, -1
	}
	seconds := binary.BigEndian.Uint32(data)
	if seconds == 0 {
		return append(arena, "0000-00-00 00:00:00"...), n
	}
	t := time.Unix(int64(seconds), 0).UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	arena = appendClock(append(appendDate(arena, year, int(month), day), ' '), hour, minute, second)
	return appendFraction(arena, data[4:n], digits), n
}

func appendDate(arena []byte, year, month, day int) []byte {
	arena = append(arena, digit(year/1000), digit(year/100), digit(year/10), digit(year), '-')
	return append(arena, digit(month/10), digit(month), '-', digit(day/10), digit(day))
}

func appendClock(arena []byte, hour, minute, second int) []byte {
	return append(arena, digit(hour/10), digit(hour), ':', digit(minute/10), digit(minute), ':', digit(second/10), digit(second))
}

func digit(n int) byte { return byte('0' + n%10) }

// appendFraction appends the fraction of a second without zeros at its end, as every other time here: it stands
// as a big-endian number of as many pairs of digits as the bytes are.
func appendFraction(arena, data []byte, digits int) []byte {
	if digits == 0 {
		return arena
	}
	var v int
	for _, b := range data {
		v = v<<8 | int(b)
	}
	for range 3 - len(data) {
		v *= 100
	}
	if v == 0 {
		return arena
	}
	arena = append(arena, '.', digit(v/100000), digit(v/10000), digit(v/1000), digit(v/100), digit(v/10), digit(v))
	for arena[len(arena)-1] == '0' {
		arena = arena[:len(arena)-1]
	}
	return arena
}
