package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"golang.org/x/text/encoding/charmap"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/mysqljson"
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
		if c.kind == kindUnknown {
			return nil, content("column_type", fmt.Sprintf(
				"give it another one (ALTER TABLE %s.%s MODIFY ...; of a COMPRESSED column the same without COMPRESSED)", mysql.QuoteName(s.table.Schema), mysql.QuoteName(s.table.Name)),
				"column %s of %s has a type that cannot be read (%d)", name, s.table, c.real)
		}
		c.names = namesOf(append(enums[i], sets[i]...), cs)
		_, length := realType(t.ColumnType[i], t.ColumnMeta[i])
		form, typ := c.describe(length)
		s.columns = append(s.columns, c)
		s.table.Columns = append(s.table.Columns, cdc.Column{Name: name, Form: form, Type: typ})
		s.foreign = s.foreign || form == cdc.FormForeign
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
	if len(data) < c.size {
		return arena, -1
	}
	if c.kind > kindJSON {
		if c.kind == kindOldDatetime && binary.LittleEndian.Uint64(data) > maxOldDatetime {
			return arena, -1
		}
		return c.fixed(arena, data[:c.size]), c.size
	}
	length := int(littleEndian(data, c.size))
	if length > len(data)-c.size {
		return arena, -1
	}
	bytes := data[c.size : c.size+length]
	if c.kind == kindJSON {
		return append(arena, bytes...), c.size + length
	}
	return c.text(arena, bytes), c.size + length
}

// maxOldDatetime is the last second of 9999. MariaDB logs old DATETIME(6) as the same type, although they stand there otherwise.
const maxOldDatetime = 99991231235959

// fixed appends a value of c.size bytes.
func (c *column) fixed(arena, data []byte) []byte {
	switch c.kind {
	case kindInt:
		shift := 64 - 8*c.size
		return strconv.AppendInt(arena, int64(littleEndian(data, c.size)<<shift)>>shift, 10)
	case kindUint:
		return strconv.AppendUint(arena, littleEndian(data, c.size), 10)
	case kindDatetime:
		return appendDatetime(arena, data)
	case kindTimestamp:
		return appendFraction(appendSeconds(arena, binary.BigEndian.Uint32(data)), data[4:])
	case kindTime:
		return appendTime(arena, data, int(c.digits))
	case kindDate:
		v := int(littleEndian(data, 3))
		return mysqljson.AppendDate(arena, v>>9, v>>5&15, v&31)
	case kindYear:
		if data[0] == 0 {
			return append(arena, "0000"...)
		}
		return strconv.AppendInt(arena, 1900+int64(data[0]), 10)
	case kindEnum:
		return c.enum(arena, littleEndian(data, c.size))
	case kindSet:
		return c.set(arena, littleEndian(data, c.size))
	case kindBit:
		return strconv.AppendUint(arena, bigEndian(data), 10)
	case kindDecimal:
		return mysqljson.AppendDecimal(arena, data, c.precision, c.digits)
	case kindFloat:
		return mysqljson.AppendFloat(arena, float64(math.Float32frombits(binary.LittleEndian.Uint32(data))), 32)
	case kindDouble:
		return mysqljson.AppendFloat(arena, math.Float64frombits(binary.LittleEndian.Uint64(data)), 64)
	case kindOldTimestamp:
		return appendSeconds(arena, binary.LittleEndian.Uint32(data))
	case kindOldDatetime:
		v := binary.LittleEndian.Uint64(data)
		date, clock := int(v/1e6), int(v%1e6)
		arena = append(mysqljson.AppendDate(arena, date/1e4, date/100%100, date%100), ' ')
		return mysqljson.AppendClock(arena, clock/1e4, clock/100%100, clock%100)
	case kindOldTime:
		v := int(int32(littleEndian(data, 3)<<8) >> 8)
		if v < 0 {
			arena, v = append(arena, '-'), -v
		}
		return appendHours(arena, v/1e4, v/100%100, v%100)
	default:
		return arena
	}
}

func littleEndian(data []byte, size int) uint64 {
	var v uint64
	for i := range size {
		v |= uint64(data[i]) << (8 * i)
	}
	return v
}

func bigEndian(data []byte) uint64 {
	var v uint64
	for _, b := range data {
		v = v<<8 | uint64(b)
	}
	return v
}

// enum appends the name of an ENUM's value; 0 is the empty one that stands for an invalid value.
func (c *column) enum(arena []byte, n uint64) []byte {
	if n < 1 || n > uint64(len(c.names)) {
		return arena
	}
	return append(arena, c.names[n-1]...)
}

func (c *column) set(arena []byte, bits uint64) []byte {
	start := len(arena)
	for i, name := range c.names {
		if bits&(1<<i) == 0 {
			continue
		}
		if len(arena) > start {
			arena = append(arena, ',')
		}
		arena = append(arena, name...)
	}
	return arena
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
func appendDatetime(arena, data []byte) []byte {
	packed := int64(data[0])<<32 | int64(binary.BigEndian.Uint32(data[1:]))
	packed -= 0x8000000000
	date, clock := packed>>17, int(packed&(1<<17-1))
	months := int(date >> 5)
	arena = mysqljson.AppendDate(arena, months/13, months%13, int(date&31))
	arena = mysqljson.AppendClock(append(arena, ' '), clock>>12, clock>>6&63, clock&63)
	return appendFraction(arena, data[5:])
}

// appendSeconds appends a TIMESTAMP's seconds since 1970.
func appendSeconds(arena []byte, seconds uint32) []byte {
	if seconds == 0 {
		return append(arena, "0000-00-00 00:00:00"...)
	}
	t := time.Unix(int64(seconds), 0).UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	return mysqljson.AppendClock(append(mysqljson.AppendDate(arena, year, int(month), day), ' '), hour, minute, second)
}

// appendFraction appends the fraction of a second without zeros at its end, as every other time here: it stands
// as a big-endian number of as many pairs of digits as the bytes are.
func appendFraction(arena, data []byte) []byte {
	v := bigEndian(data)
	if v == 0 {
		return arena
	}
	arena = mysqljson.AppendDigits(append(arena, '.'), v, 2*len(data))
	for arena[len(arena)-1] == '0' {
		arena = arena[:len(arena)-1]
	}
	return arena
}

// appendTime reads TIME2: a big-endian number, to which the half of its range was added. Above the fraction it has 10 bits of hour, 6 of
// minute and 6 of second (my_time_packed_from_binary in mysys/my_time.cc). The fraction has all its digits, or none if it is 0.
func appendTime(arena, data []byte, digits int) []byte {
	pairs := len(data) - 3
	packed := int64(bigEndian(data)) - 1<<(8*len(data)-1)
	if packed < 0 {
		arena, packed = append(arena, '-'), -packed
	}
	whole, fraction := int(packed>>(8*pairs)), uint64(packed&(1<<(8*pairs)-1))
	arena = appendHours(arena, whole>>12&1023, whole>>6&63, whole&63)
	if fraction == 0 {
		return arena
	}
	arena = mysqljson.AppendDigits(append(arena, '.'), fraction, 2*pairs)
	return arena[:len(arena)-2*pairs+digits]
}

// appendHours appends a time that may have more than 99 hours.
func appendHours(arena []byte, hour, minute, second int) []byte {
	if hour > 99 {
		arena = strconv.AppendInt(arena, int64(hour/100), 10)
	}
	return mysqljson.AppendClock(arena, hour, minute, second)
}
