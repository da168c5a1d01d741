package cdc

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/mysqljson"
)

// Form says how a column's values stand in an arena. Sources choose the form that costs them least;
// readers ask for text or bytes with [Form.AppendText] and [Form.Bytes].
type Form uint8

// The forms. Dead letters hold their numbers: new ones come last.
const (
	// FormText is UTF-8 text as the database prints it.
	FormText Form = iota
	// FormBytes is raw bytes (bytea in binary mode, BLOB).
	FormBytes
	// FormHex is bytes as PostgreSQL prints bytea: \x followed by hex digits.
	FormHex
	// FormUUID is the 16 bytes of a UUID.
	FormUUID
	// FormMicros2000 is a timestamptz: big-endian int64, microseconds since 2000-01-01 UTC.
	FormMicros2000
	// FormLocalMicros2000 is a timestamp without time zone in the same encoding; it is read as UTC, but by [Form.AppendShown].
	FormLocalMicros2000
	// FormInt is a big-endian two's complement integer of 2, 4 or 8 bytes.
	FormInt
	// FormBool is one byte: 0 or 1, or the letter t or f as PostgreSQL prints it.
	FormBool
	// FormJSONB is a version byte (1) and JSON text.
	FormJSONB
	// FormTimestampText is a timestamp as PostgreSQL prints it with DateStyle ISO and time zone UTC.
	FormTimestampText
	// FormForeign is text in a character set that the source does not know: bytes that must not be taken for text.
	FormForeign
	// FormOpaque is a binary form that the source does not know, of a column that no part of an event needs.
	FormOpaque
	// FormMySQLJSON is a document in MySQL's binary form. As text and as bytes it is what SELECT prints.
	FormMySQLJSON
)

// micros2000 is 2000-01-01 00:00:00 UTC in Unix microseconds: PostgreSQL's epoch
// (POSTGRES_EPOCH_JDATE in src/include/datatype/timestamp.h).
const micros2000 = 946684800000000

var errMalformed = errors.New("malformed value")

// Bytes returns the value as bytes: what a record's value carries. It appends to dst only where the
// bytes differ from raw, and otherwise returns raw itself.
func (f Form) Bytes(dst, raw []byte) (value, grown []byte, err error) {
	switch f {
	case FormText, FormBytes:
		return raw, dst, nil
	case FormJSONB:
		if len(raw) == 0 || raw[0] != 1 {
			return nil, dst, fmt.Errorf("jsonb of unknown version: %w", errMalformed)
		}
		return raw[1:], dst, nil
	case FormHex:
		return appendHex(dst, raw)
	default:
		start := len(dst)
		dst, err = f.AppendText(dst, raw)
		return dst[start:len(dst):len(dst)], dst, err
	}
}

func appendHex(dst, raw []byte) (value, grown []byte, err error) {
	if len(raw) < 2 || raw[0] != '\\' || raw[1] != 'x' {
		return nil, dst, fmt.Errorf(`bytea that does not start with \x (bytea_output must be hex): %w`, errMalformed)
	}
	start := len(dst)
	dst, err = hex.AppendDecode(dst, raw[2:])
	return dst[start:len(dst):len(dst)], dst, err
}

// AppendText appends the value as text to dst: timestamps as RFC 3339 in UTC with microseconds where
// there are any, integers in decimal, UUIDs in their canonical form, bytes as they are.
func (f Form) AppendText(dst, raw []byte) ([]byte, error) {
	switch f {
	case FormText, FormBytes:
		return append(dst, raw...), nil
	case FormHex, FormJSONB:
		value, grown, err := f.Bytes(dst, raw)
		if f == FormJSONB {
			return append(grown, value...), err
		}
		return grown, err
	case FormUUID:
		return appendUUID(dst, raw)
	case FormMicros2000, FormLocalMicros2000:
		return appendMicros(dst, raw)
	case FormTimestampText:
		return appendTimestampText(dst, raw), nil
	case FormInt:
		return appendInt(dst, raw)
	case FormBool:
		return appendBool(dst, raw)
	case FormMySQLJSON:
		return mysqljson.Append(dst, raw)
	default:
		return dst, fmt.Errorf("form %d: %w", f, errMalformed)
	}
}

// AppendShown is AppendText for times without a zone, which clocks of z showed: they become RFC 3339 in UTC. A nil z is UTC.
func (f Form) AppendShown(dst, raw []byte, z *Zone) ([]byte, error) {
	if z == nil {
		return f.AppendText(dst, raw)
	}
	var shown time.Time
	known := false
	switch f {
	case FormLocalMicros2000:
		shown, known = timeOfMicros(raw)
	case FormTimestampText:
		shown, known = timeOfText(raw)
	default:
	}
	if !known {
		return f.AppendText(dst, raw)
	}
	return appendTime(dst, z.Moment(shown)), nil
}

func appendUUID(dst, raw []byte) ([]byte, error) {
	if len(raw) != 16 {
		return dst, fmt.Errorf("uuid of %d bytes: %w", len(raw), errMalformed)
	}
	text := [36]byte{8: '-', 13: '-', 18: '-', 23: '-'}
	hex.Encode(text[:8], raw[:4])
	hex.Encode(text[9:13], raw[4:6])
	hex.Encode(text[14:18], raw[6:8])
	hex.Encode(text[19:23], raw[8:10])
	hex.Encode(text[24:], raw[10:])
	return append(dst, text[:]...), nil
}

func appendMicros(dst, raw []byte) ([]byte, error) {
	if len(raw) != 8 {
		return dst, fmt.Errorf("timestamp of %d bytes: %w", len(raw), errMalformed)
	}
	at, ok := timeOfMicros(raw)
	switch {
	case ok:
		return appendTime(dst, at), nil
	case raw[0] == 0x7f:
		return append(dst, "infinity"...), nil
	default:
		return append(dst, "-infinity"...), nil
	}
}

// timeOfMicros returns false for what is infinite, or no timestamp.
func timeOfMicros(raw []byte) (time.Time, bool) {
	if len(raw) != 8 {
		return time.Time{}, false
	}
	v := int64(binary.BigEndian.Uint64(raw))
	// In seconds, because PostgreSQL's latest timestamps overflow Unix microseconds.
	return time.Unix(v/1e6+micros2000/1e6, v%1e6*1e3), v != 1<<63-1 && v != -1<<63
}

// timeOfText returns false for what is infinite, of years BC or of five digits, with a zone, or no day of the calendar, which MySQL may
// hold.
func timeOfText(raw []byte) (time.Time, bool) {
	at, err := time.Parse(time.DateTime, string(raw))
	return at, err == nil
}

// AppendMicros appends a time given in Unix microseconds as RFC 3339 in UTC, with a fraction only
// where there is one.
func AppendMicros(dst []byte, unixMicros int64) []byte {
	return appendTime(dst, time.UnixMicro(unixMicros))
}

// appendTime does by hand what AppendFormat with time.RFC3339Nano does, at half its cost: it runs for
// every event.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(dst, time.RFC3339Nano)
	}
	hour, minute, second := t.Clock()
	dst = append(dst, digit(year/1000), digit(year/100), digit(year/10), digit(year), '-',
		digit(int(month)/10), digit(int(month)), '-', digit(day/10), digit(day), 'T',
		digit(hour/10), digit(hour), ':', digit(minute/10), digit(minute), ':', digit(second/10), digit(second))
	if micros := t.Nanosecond() / 1000; micros != 0 {
		dst = append(dst, '.', digit(micros/100000), digit(micros/10000), digit(micros/1000),
			digit(micros/100), digit(micros/10), digit(micros))
		for dst[len(dst)-1] == '0' {
			dst = dst[:len(dst)-1]
		}
	}
	return append(dst, 'Z')
}

// digit is the last decimal digit of n.
func digit(n int) byte { return byte('0' + n%10) }

// appendTimestampText turns "2026-01-02 03:04:05.6+00" into "2026-01-02T03:04:05.6Z" and leaves what it
// does not know (infinity, years BC or of five digits) as it is.
func appendTimestampText(dst, raw []byte) []byte {
	if len(raw) < 19 || raw[4] != '-' || raw[7] != '-' || raw[10] != ' ' || raw[13] != ':' || raw[16] != ':' {
		return append(dst, raw...)
	}
	end := 19
	if end < len(raw) && raw[end] == '.' {
		for end++; end < len(raw) && raw[end] >= '0' && raw[end] <= '9'; {
			end++
		}
	}
	zone, ok := zoneRFC3339(raw[end:])
	if !ok {
		return append(dst, raw...)
	}
	start := len(dst)
	dst = append(append(dst, raw[:end]...), zone...)
	dst[start+10] = 'T'
	return dst
}

// zoneRFC3339 returns the zone behind a timestamp as RFC 3339 writes it, and false for what it cannot.
func zoneRFC3339(zone []byte) (string, bool) {
	switch z := string(zone); {
	case z == "" || z == "+00":
		return "Z", true
	case zone[0] != '+' && zone[0] != '-':
		return "", false
	case len(z) == len("+02"):
		return z + ":00", true
	default:
		return z, len(z) == len("+05:30") && z[3] == ':'
	}
}

func appendInt(dst, raw []byte) ([]byte, error) {
	switch len(raw) {
	case 2:
		return strconv.AppendInt(dst, int64(int16(binary.BigEndian.Uint16(raw))), 10), nil
	case 4:
		return strconv.AppendInt(dst, int64(int32(binary.BigEndian.Uint32(raw))), 10), nil
	case 8:
		return strconv.AppendInt(dst, int64(binary.BigEndian.Uint64(raw)), 10), nil
	default:
		return dst, fmt.Errorf("integer of %d bytes: %w", len(raw), errMalformed)
	}
}

func appendBool(dst, raw []byte) ([]byte, error) {
	if len(raw) != 1 {
		return dst, fmt.Errorf("boolean of %d bytes: %w", len(raw), errMalformed)
	}
	switch raw[0] {
	case 0, 'f':
		return append(dst, "false"...), nil
	case 1, 't':
		return append(dst, "true"...), nil
	default:
		return dst, fmt.Errorf("boolean %d: %w", raw[0], errMalformed)
	}
}
