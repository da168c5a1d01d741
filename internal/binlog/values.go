package binlog

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"golang.org/x/text/encoding/charmap"

	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/mysqljson"
)

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
	length := int(gomysql.FixedLengthInt(data[:c.size]))
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
		return strconv.AppendInt(arena, int64(gomysql.FixedLengthInt(data)<<shift)>>shift, 10)
	case kindUint:
		return strconv.AppendUint(arena, gomysql.FixedLengthInt(data), 10)
	case kindDatetime:
		return appendDatetime(arena, data)
	case kindTimestamp:
		return appendFraction(appendSeconds(arena, binary.BigEndian.Uint32(data)), data[4:])
	case kindTime:
		return appendTime(arena, data, int(c.digits))
	case kindDate:
		v := int(gomysql.FixedLengthInt(data))
		return mysqljson.AppendDate(arena, v>>9, v>>5&15, v&31)
	case kindYear:
		if data[0] == 0 {
			return append(arena, "0000"...)
		}
		return strconv.AppendInt(arena, 1900+int64(data[0]), 10)
	case kindEnum:
		return c.enum(arena, gomysql.FixedLengthInt(data))
	case kindSet:
		return c.set(arena, gomysql.FixedLengthInt(data))
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
		v := int(int32(gomysql.FixedLengthInt(data)<<8) >> 8)
		if v < 0 {
			arena, v = append(arena, '-'), -v
		}
		return appendHours(arena, v/1e4, v/100%100, v%100)
	default:
		return arena
	}
}

// bigEndian takes half the time of go-mysql's.
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
