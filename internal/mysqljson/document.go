package mysqljson

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
)

// The kinds of values (sql-common/json_binary.cc).
const (
	smallObject byte = iota
	largeObject
	smallArray
	largeArray
	literal
	int16Value
	uint16Value
	int32Value
	uint32Value
	int64Value
	uint64Value
	doubleValue
	stringValue
	opaqueValue byte = 0x0f
)

// The literals.
const (
	nullLiteral byte = iota
	trueLiteral
	falseLiteral
)

// The types of opaque values that are printed as what they are (enum_field_types in include/field_types.h).
const (
	typeTimestamp  byte = 7
	typeDate       byte = 10
	typeTime       byte = 11
	typeDatetime   byte = 12
	typeNewDecimal byte = 246
)

var errMalformed = errors.New("malformed JSON document")

// maxDepth is the server's own bound (JSON_DOCUMENT_MAX_DEPTH).
const maxDepth = 100

// printer writes values of MySQL's binary JSON (sql-common/json_binary.h describes it) as the server prints them
// (Json_wrapper::to_string in sql-common/json_dom.cc): members in the order in which they are stored, doubles with a
// fraction or an exponent, decimals with all their digits.
type printer struct {
	arena []byte
	// left are the document's bytes that nothing has been read from yet. The server lets no two values share
	// bytes; if they did, a small document could make a text without end.
	left int
}

// Append appends a document as SELECT prints it, or part of it and an error.
func Append(dst, document []byte) ([]byte, error) {
	if len(document) == 0 { // INSERT IGNORE can leave it, and the server takes it for this
		return append(dst, "null"...), nil
	}
	p := printer{arena: dst, left: len(document)}
	err := p.value(document[0], document[1:], 0)
	return p.arena, err
}

func (p *printer) value(tp byte, data []byte, depth int) error {
	switch tp {
	case smallObject, smallArray:
		return p.composite(data, 2, tp == smallObject, depth)
	case largeObject, largeArray:
		return p.composite(data, 4, tp == largeObject, depth)
	case literal:
		return p.literal(data)
	case int16Value, uint16Value:
		return p.integer(data, 2, tp == int16Value)
	case int32Value, uint32Value:
		return p.integer(data, 4, tp == int32Value)
	case int64Value, uint64Value:
		return p.integer(data, 8, tp == int64Value)
	case doubleValue:
		return p.double(data)
	case stringValue:
		text, err := p.counted(data)
		p.arena = appendString(p.arena, text)
		return err
	case opaqueValue:
		return p.opaque(data)
	}
	return errMalformed
}

// take counts bytes as read. They are of data, which has to have them.
func (p *printer) take(data []byte, n uint64) bool {
	if n > uint64(len(data)) || n > uint64(p.left) {
		return false
	}
	p.left -= int(n)
	return true
}

// composite writes an object or an array: the number of members and the size of it all, an offset and a length for
// each key, a type and an offset for each value, then the keys and the values. Offsets count from the start of data;
// width is how many bytes numbers, offsets and sizes have.
func (p *printer) composite(data []byte, width int, object bool, depth int) error {
	if depth >= maxDepth || len(data) < 2*width {
		return errMalformed
	}
	count, size := littleEndian(data, width), littleEndian(data[width:], width)
	brackets, key, value := "[]", 0, 1+width
	if object {
		brackets, key = "{}", width+2
	}
	if size > uint64(len(data)) || !p.take(data[:size], uint64(2*width)+count*uint64(key+value)) {
		return errMalformed
	}
	data = data[:size]
	keys := data[2*width:]
	values := keys[int(count)*key:]
	p.arena = append(p.arena, brackets[0])
	for i := range int(count) {
		if i > 0 {
			p.arena = append(p.arena, ", "...)
		}
		if object {
			if err := p.key(data, keys[i*key:], width); err != nil {
				return err
			}
		}
		if err := p.member(data, values[i*value:], width, depth); err != nil {
			return err
		}
	}
	p.arena = append(p.arena, brackets[1])
	return nil
}

func (p *printer) key(data, entry []byte, width int) error {
	offset, length := littleEndian(entry, width), littleEndian(entry[width:], 2)
	if offset > uint64(len(data)) || !p.take(data[offset:], length) {
		return errMalformed
	}
	p.arena = append(appendString(p.arena, data[offset:offset+length]), ": "...)
	return nil
}

// member writes the value of an entry. Where an offset would stand, there are small values themselves.
func (p *printer) member(data, entry []byte, width, depth int) error {
	switch tp := entry[0]; {
	case tp == literal, tp == int16Value, tp == uint16Value,
		width == 4 && (tp == int32Value || tp == uint32Value):
		p.left += width // which have been counted with the entry
		return p.value(tp, entry[1:1+width], depth+1)
	default:
		offset := littleEndian(entry[1:], width)
		if offset > uint64(len(data)) {
			return errMalformed
		}
		return p.value(tp, data[offset:], depth+1)
	}
}

func (p *printer) literal(data []byte) error {
	if !p.take(data, 1) {
		return errMalformed
	}
	switch data[0] {
	case nullLiteral:
		p.arena = append(p.arena, "null"...)
	case trueLiteral:
		p.arena = append(p.arena, "true"...)
	case falseLiteral:
		p.arena = append(p.arena, "false"...)
	default:
		return errMalformed
	}
	return nil
}

func (p *printer) integer(data []byte, size int, signed bool) error {
	if !p.take(data, uint64(size)) {
		return errMalformed
	}
	v := littleEndian(data, size)
	if !signed {
		p.arena = strconv.AppendUint(p.arena, v, 10)
		return nil
	}
	shift := 64 - 8*size
	p.arena = strconv.AppendInt(p.arena, int64(v<<shift)>>shift, 10)
	return nil
}

func (p *printer) double(data []byte) error {
	if !p.take(data, 8) {
		return errMalformed
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(data))
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return errMalformed
	}
	p.arena = AppendFloat(p.arena, v, 64)
	if v == math.Trunc(v) && math.Abs(v) < minExponent {
		p.arena = append(p.arena, ".0"...)
	}
	return nil
}

// counted cuts off bytes behind their number, which has 7 bits in each of its bytes, the lowest first.
func (p *printer) counted(data []byte) ([]byte, error) {
	length, n := binary.Uvarint(data[:min(len(data), 5)])
	if n <= 0 || !p.take(data[n:], length) {
		return nil, errMalformed
	}
	return data[n : n+int(length)], nil
}

// opaque writes a value of a type that JSON does not have: the type, then a string of bytes.
func (p *printer) opaque(data []byte) error {
	if len(data) == 0 {
		return errMalformed
	}
	bytes, err := p.counted(data[1:])
	if err != nil {
		return err
	}
	switch tp := data[0]; tp {
	case typeNewDecimal:
		if len(bytes) < 3 || len(bytes)-2 != DecimalSize(bytes[0], bytes[1]) {
			return errMalformed
		}
		p.arena = AppendDecimal(p.arena, bytes[2:], bytes[0], bytes[1])
	case typeDate, typeTime, typeDatetime, typeTimestamp:
		if len(bytes) != 8 {
			return errMalformed
		}
		p.arena = append(p.arena, '"')
		p.arena = appendPacked(p.arena, tp, int64(binary.LittleEndian.Uint64(bytes)))
		p.arena = append(p.arena, '"')
	default:
		p.arena = strconv.AppendUint(append(p.arena, `"base64:type`...), uint64(tp), 10)
		p.arena = append(appendBase64(append(p.arena, ':'), bytes), '"')
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
		if tp == typeTime {
			arena = append(arena, '-')
		}
	}
	micros, whole := int(packed&(1<<24-1)), int(packed>>24&(1<<40-1))
	if tp != typeTime {
		months := whole >> 22
		arena = AppendDate(arena, months/13, months%13, whole>>17&31)
		if tp == typeDate {
			return arena
		}
		arena = append(arena, ' ')
	}
	hour := whole >> 12 & 31
	if tp == typeTime {
		if hour = whole >> 12 & 1023; hour >= 100 {
			arena = append(arena, digit(hour/100))
		}
	}
	arena = append(AppendClock(arena, hour, whole>>6&63, whole&63), '.')
	return AppendDigits(arena, uint64(micros), 6)
}

func littleEndian(data []byte, size int) uint64 {
	var v uint64
	for i := range size {
		v |= uint64(data[i]) << (8 * i)
	}
	return v
}

const lowerHex = "0123456789abcdef"

// appendString quotes a string as the server does (double_quote in sql-common/json_dom.cc).
func appendString(arena, text []byte) []byte {
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
