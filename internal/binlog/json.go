package binlog

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// maxJSONDepth is the server's own bound (JSON_DOCUMENT_MAX_DEPTH).
const maxJSONDepth = 100

// jsonText writes values of MySQL's binary JSON (sql-common/json_binary.h describes it) as the server prints them
// (Json_wrapper::to_string in sql-common/json_dom.cc): members in the order in which they are stored, doubles with a
// fraction or an exponent, decimals with all their digits.
type jsonText struct {
	arena []byte
	// left are the document's bytes that nothing has been read from yet. The server lets no two values share
	// bytes; if they did, a small document could make a text without end.
	left int
}

// appendJSON appends a document as SELECT prints it.
func appendJSON(arena, document []byte) ([]byte, error) {
	if len(document) == 0 { // INSERT IGNORE can leave it, and the server takes it for this
		return append(arena, "null"...), nil
	}
	t := jsonText{arena: arena, left: len(document)}
	err := t.value(document[0], document[1:], 0)
	return t.arena, err
}

func (t *jsonText) value(tp byte, data []byte, depth int) error {
	switch tp {
	case replication.JSONB_SMALL_OBJECT, replication.JSONB_SMALL_ARRAY:
		return t.composite(data, 2, tp == replication.JSONB_SMALL_OBJECT, depth)
	case replication.JSONB_LARGE_OBJECT, replication.JSONB_LARGE_ARRAY:
		return t.composite(data, 4, tp == replication.JSONB_LARGE_OBJECT, depth)
	case replication.JSONB_LITERAL:
		return t.literal(data)
	case replication.JSONB_INT16, replication.JSONB_UINT16:
		return t.integer(data, 2, tp == replication.JSONB_INT16)
	case replication.JSONB_INT32, replication.JSONB_UINT32:
		return t.integer(data, 4, tp == replication.JSONB_INT32)
	case replication.JSONB_INT64, replication.JSONB_UINT64:
		return t.integer(data, 8, tp == replication.JSONB_INT64)
	case replication.JSONB_DOUBLE:
		return t.double(data)
	case replication.JSONB_STRING:
		text, err := t.counted(data)
		t.arena = appendJSONString(t.arena, text)
		return err
	case replication.JSONB_OPAQUE:
		return t.opaque(data)
	}
	return errMalformed
}

// take counts bytes as read. They are of data, which has to have them.
func (t *jsonText) take(data []byte, n uint64) bool {
	if n > uint64(len(data)) || n > uint64(t.left) {
		return false
	}
	t.left -= int(n)
	return true
}

// composite writes an object or an array: the number of members and the size of it all, an offset and a length for
// each key, a type and an offset for each value, then the keys and the values. Offsets count from the start of data;
// width is how many bytes numbers, offsets and sizes have.
func (t *jsonText) composite(data []byte, width int, object bool, depth int) error {
	if depth >= maxJSONDepth || len(data) < 2*width {
		return errMalformed
	}
	count, size := littleEndian(data, width), littleEndian(data[width:], width)
	brackets, key, value := "[]", 0, 1+width
	if object {
		brackets, key = "{}", width+2
	}
	if size > uint64(len(data)) || !t.take(data[:size], uint64(2*width)+count*uint64(key+value)) {
		return errMalformed
	}
	data = data[:size]
	keys := data[2*width:]
	values := keys[int(count)*key:]
	t.arena = append(t.arena, brackets[0])
	for i := range int(count) {
		if i > 0 {
			t.arena = append(t.arena, ", "...)
		}
		if object {
			if err := t.key(data, keys[i*key:], width); err != nil {
				return err
			}
		}
		if err := t.member(data, values[i*value:], width, depth); err != nil {
			return err
		}
	}
	t.arena = append(t.arena, brackets[1])
	return nil
}

func (t *jsonText) key(data, entry []byte, width int) error {
	offset, length := littleEndian(entry, width), littleEndian(entry[width:], 2)
	if offset > uint64(len(data)) || !t.take(data[offset:], length) {
		return errMalformed
	}
	t.arena = append(appendJSONString(t.arena, data[offset:offset+length]), ": "...)
	return nil
}

// member writes the value of an entry. Where an offset would stand, there are small values themselves.
func (t *jsonText) member(data, entry []byte, width, depth int) error {
	switch tp := entry[0]; {
	case tp == replication.JSONB_LITERAL, tp == replication.JSONB_INT16, tp == replication.JSONB_UINT16,
		width == 4 && (tp == replication.JSONB_INT32 || tp == replication.JSONB_UINT32):
		t.left += width // which have been counted with the entry
		return t.value(tp, entry[1:1+width], depth+1)
	default:
		offset := littleEndian(entry[1:], width)
		if offset > uint64(len(data)) {
			return errMalformed
		}
		return t.value(tp, data[offset:], depth+1)
	}
}

func (t *jsonText) literal(data []byte) error {
	if !t.take(data, 1) {
		return errMalformed
	}
	switch data[0] {
	case replication.JSONB_NULL_LITERAL:
		t.arena = append(t.arena, "null"...)
	case replication.JSONB_TRUE_LITERAL:
		t.arena = append(t.arena, "true"...)
	case replication.JSONB_FALSE_LITERAL:
		t.arena = append(t.arena, "false"...)
	default:
		return errMalformed
	}
	return nil
}

func (t *jsonText) integer(data []byte, size int, signed bool) error {
	if !t.take(data, uint64(size)) {
		return errMalformed
	}
	v := littleEndian(data, size)
	if !signed {
		t.arena = strconv.AppendUint(t.arena, v, 10)
		return nil
	}
	shift := 64 - 8*size
	t.arena = strconv.AppendInt(t.arena, int64(v<<shift)>>shift, 10)
	return nil
}

func (t *jsonText) double(data []byte) error {
	if !t.take(data, 8) {
		return errMalformed
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(data))
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return errMalformed
	}
	t.arena = mysql.AppendFloat(t.arena, v, 64)
	if v == math.Trunc(v) && math.Abs(v) < mysql.MinExponent {
		t.arena = append(t.arena, ".0"...)
	}
	return nil
}

// counted cuts off bytes behind their number, which has 7 bits in each of its bytes, the lowest first.
func (t *jsonText) counted(data []byte) ([]byte, error) {
	length, n := binary.Uvarint(data[:min(len(data), 5)])
	if n <= 0 || !t.take(data[n:], length) {
		return nil, errMalformed
	}
	return data[n : n+int(length)], nil
}

// opaque writes a value of a type that JSON does not have: the type, then a string of bytes.
func (t *jsonText) opaque(data []byte) error {
	if len(data) == 0 {
		return errMalformed
	}
	bytes, err := t.counted(data[1:])
	if err != nil {
		return err
	}
	switch tp := data[0]; tp {
	case gomysql.MYSQL_TYPE_NEWDECIMAL:
		var ok bool
		if t.arena, ok = appendDecimal(t.arena, bytes); !ok {
			return errMalformed
		}
	case gomysql.MYSQL_TYPE_DATE, gomysql.MYSQL_TYPE_TIME, gomysql.MYSQL_TYPE_DATETIME, gomysql.MYSQL_TYPE_TIMESTAMP:
		if len(bytes) != 8 {
			return errMalformed
		}
		t.arena = append(t.arena, '"')
		t.arena = appendPacked(t.arena, tp, int64(binary.LittleEndian.Uint64(bytes)))
		t.arena = append(t.arena, '"')
	default:
		t.arena = strconv.AppendUint(append(t.arena, `"base64:type`...), uint64(tp), 10)
		t.arena = append(appendBase64(append(t.arena, ':'), bytes), '"')
	}
	return nil
}

// appendBase64 breaks lines as the server does.
func appendBase64(arena, bytes []byte) []byte {
	const line = 76 / 4 * 3
	for len(bytes) > line {
		arena = append(base64.StdEncoding.AppendEncode(arena, bytes[:line]), `\n`...)
		bytes = bytes[line:]
	}
	return base64.StdEncoding.AppendEncode(arena, bytes)
}

// appendPacked writes a date, a time or both: 24 bits of microseconds, and above them what DATETIME2 has too
// (my_packed_time_* and TIME_from_longlong_*_packed in mysys/my_time.cc). The sign is of the whole.
func appendPacked(arena []byte, tp byte, packed int64) []byte {
	if packed < 0 {
		packed = -packed
		if tp == gomysql.MYSQL_TYPE_TIME {
			arena = append(arena, '-')
		}
	}
	micros, whole := int(packed&(1<<24-1)), int(packed>>24&(1<<40-1))
	if tp != gomysql.MYSQL_TYPE_TIME {
		months := whole >> 22
		arena = appendDate(arena, months/13, months%13, whole>>17&31)
		if tp == gomysql.MYSQL_TYPE_DATE {
			return arena
		}
		arena = append(arena, ' ')
	}
	hour := whole >> 12 & 31
	if tp == gomysql.MYSQL_TYPE_TIME {
		if hour = whole >> 12 & 1023; hour >= 100 {
			arena = append(arena, digit(hour/100))
		}
	}
	arena = append(appendClock(arena, hour, whole>>6&63, whole&63), '.')
	return appendDigits(arena, uint64(micros), 6)
}

// appendDigits appends the last n digits of v.
func appendDigits(arena []byte, v uint64, n int) []byte {
	for range n {
		arena = append(arena, 0)
	}
	for i := len(arena) - 1; n > 0; i, n = i-1, n-1 {
		arena[i] = byte('0' + v%10)
		v /= 10
	}
	return arena
}

const lowerHex = "0123456789abcdef"

// appendJSONString quotes a string as the server does (double_quote in sql-common/json_dom.cc).
func appendJSONString(arena, text []byte) []byte {
	arena = append(arena, '"')
	from := 0
	for i, c := range text {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		arena = append(arena, text[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			arena = append(arena, '\\', c)
		case '\b':
			arena = append(arena, `\b`...)
		case '\t':
			arena = append(arena, `\t`...)
		case '\n':
			arena = append(arena, `\n`...)
		case '\f':
			arena = append(arena, `\f`...)
		case '\r':
			arena = append(arena, `\r`...)
		default:
			arena = append(arena, '\\', 'u', '0', '0', lowerHex[c>>4], lowerHex[c&15])
		}
	}
	return append(append(arena, text[from:]...), '"')
}
