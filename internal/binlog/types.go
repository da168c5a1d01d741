package binlog

import (
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/mysqljson"
)

// kind says how a column's values stand in the binlog and what becomes of them.
type kind uint8

const (
	kindUnknown kind = iota
	// The length of a value, in size bytes, precedes it.
	kindString
	kindBlob
	kindJSON // MySQL's binary form
	// A value has size bytes.
	kindInt // little-endian, like all but BIT and what has digits
	kindUint
	kindEnum // the number of a name, from 1
	kindSet  // a bit for each name
	kindYear // since 1900
	kindDate // 15 bits of year, 4 of month, 5 of day
	kindFloat
	kindDouble
	kindBit
	kindDecimal   // see mysqljson.AppendDecimal
	kindTime      // TIME2
	kindDatetime  // DATETIME2
	kindTimestamp // TIMESTAMP2
	// MariaDB with mysql56_temporal_format = OFF.
	kindOldTime      // hhmmss as a number, with a sign
	kindOldDatetime  // YYYYMMDDhhmmss as a number
	kindOldTimestamp // seconds since 1970
)

// column is how to read one column.
type column struct {
	kind kind
	// real is the type behind the binlog's MYSQL_TYPE_STRING, which also stands for ENUM and SET.
	real byte
	// size is how many bytes each value has, or the length before it.
	size int
	// digits are those behind a point: of a second, or a DECIMAL's. precision is that of a DECIMAL.
	digits, precision byte
	charset           mysql.Charset
	// pad is the length of a BINARY column: the binlog leaves trailing zero bytes out.
	pad int
	// names are an ENUM's or a SET's.
	names []string
}

// realType undoes the packing of ENUM, SET and long CHAR columns into MYSQL_TYPE_STRING
// (Field_string::do_save_field_metadata in sql/field.cc), and returns the type and the column's greatest length in bytes.
func realType(tp byte, meta uint16) (behind byte, length int) {
	if tp != gomysql.MYSQL_TYPE_STRING || meta < 256 {
		return tp, int(meta)
	}
	first, second := byte(meta>>8), int(meta&0xff)
	if first&0x30 != 0x30 {
		return first | 0x30, second | int(first&0x30^0x30)<<4
	}
	return first, second
}

// countVectors makes BLOBs of a table map's VECTORs, which they are in the binlog: go-mysql does not count VECTOR among
// the types with a character set, as the server does, and would give columns behind one the character set of another.
func countVectors(types []byte) {
	for i, tp := range types {
		if tp == gomysql.MYSQL_TYPE_VECTOR {
			types[i] = gomysql.MYSQL_TYPE_BLOB
		}
	}
}

// columnOf reads a table map's description of a column. The kind is kindUnknown if it cannot be read: the description of a column behind
// another type would be read from the wrong place.
func columnOf(tp byte, meta uint16, unsigned bool, cs mysql.Charset) column {
	c := column{charset: cs}
	var length int
	c.real, length = realType(tp, meta)
	first, last := byte(meta>>8), byte(meta)
	switch c.real {
	case gomysql.MYSQL_TYPE_TINY:
		c.kind, c.size = kindInt, 1
	case gomysql.MYSQL_TYPE_SHORT:
		c.kind, c.size = kindInt, 2
	case gomysql.MYSQL_TYPE_INT24:
		c.kind, c.size = kindInt, 3
	case gomysql.MYSQL_TYPE_LONG:
		c.kind, c.size = kindInt, 4
	case gomysql.MYSQL_TYPE_LONGLONG:
		c.kind, c.size = kindInt, 8
	case gomysql.MYSQL_TYPE_VARCHAR, gomysql.MYSQL_TYPE_VAR_STRING, gomysql.MYSQL_TYPE_STRING:
		c.kind, c.size = kindString, 1
		if length > 255 {
			c.size = 2
		}
		if c.real == gomysql.MYSQL_TYPE_STRING && cs == mysql.CharsetBinary {
			c.pad = length
		}
	case gomysql.MYSQL_TYPE_BLOB, gomysql.MYSQL_TYPE_GEOMETRY: // VECTOR has been made one: see countVectors
		c.kind, c.size = sized(kindBlob, int(meta), 4)
	case gomysql.MYSQL_TYPE_JSON:
		c.kind, c.size = sized(kindJSON, int(meta), 4)
	case gomysql.MYSQL_TYPE_ENUM:
		c.kind, c.size = sized(kindEnum, int(last), 2)
	case gomysql.MYSQL_TYPE_SET:
		c.kind, c.size = sized(kindSet, int(last), 8)
	case gomysql.MYSQL_TYPE_BIT: // the bits that fill no byte, and the bytes
		c.kind, c.size = sized(kindBit, int(first)+(int(last)+7)/8, 8)
	case gomysql.MYSQL_TYPE_NEWDECIMAL:
		c.precision, c.digits = first, last
		c.kind, c.size = sized(kindDecimal, mysqljson.DecimalSize(first, last), maxDecimal)
	case gomysql.MYSQL_TYPE_FLOAT:
		c.kind, c.size = kindFloat, 4
	case gomysql.MYSQL_TYPE_DOUBLE:
		c.kind, c.size = kindDouble, 8
	case gomysql.MYSQL_TYPE_YEAR:
		c.kind, c.size = kindYear, 1
	case gomysql.MYSQL_TYPE_DATE:
		c.kind, c.size = kindDate, 3
	case gomysql.MYSQL_TYPE_TIME2:
		c.fraction(kindTime, 3, meta)
	case gomysql.MYSQL_TYPE_DATETIME2:
		c.fraction(kindDatetime, 5, meta)
	case gomysql.MYSQL_TYPE_TIMESTAMP2:
		c.fraction(kindTimestamp, 4, meta)
	case gomysql.MYSQL_TYPE_TIME:
		c.kind, c.size = kindOldTime, 3
	case gomysql.MYSQL_TYPE_DATETIME:
		c.kind, c.size = kindOldDatetime, 8
	case gomysql.MYSQL_TYPE_TIMESTAMP:
		c.kind, c.size = kindOldTimestamp, 4
	}
	if c.kind == kindInt && unsigned {
		c.kind = kindUint
	}
	return c
}

// maxDecimal is the size of DECIMAL(65,30), the largest.
const maxDecimal = 30

func sized(k kind, size, limit int) (kind, int) {
	if size < 1 || size > limit {
		return kindUnknown, 0
	}
	return k, size
}

// fraction sets the kind of a time with a fraction of a second, which follows whole bytes: one byte for two digits.
func (c *column) fraction(k kind, whole int, digits uint16) {
	if digits > 6 {
		return
	}
	c.kind, c.size, c.digits = k, whole+(int(digits)+1)/2, byte(digits)
}

// describe returns how the column's values stand in a batch's arena, and what they are. length is the column's greatest.
func (c *column) describe(length int) (cdc.Form, cdc.Type) {
	switch c.kind {
	case kindString, kindBlob:
		switch {
		case c.charset == mysql.CharsetUnknown:
			return cdc.FormForeign, cdc.TypeText
		case c.charset != mysql.CharsetBinary:
			return cdc.FormText, cdc.TypeText
		case c.kind == kindString && length == mysql.UUIDSize:
			return cdc.FormUUID, cdc.TypeUUID
		}
		return cdc.FormBytes, cdc.TypeBytes
	case kindEnum, kindSet:
		if c.charset == mysql.CharsetUnknown {
			return cdc.FormForeign, cdc.TypeText
		}
		return cdc.FormText, cdc.TypeText
	case kindJSON:
		return cdc.FormMySQLJSON, cdc.TypeJSON
	case kindInt, kindUint, kindYear, kindBit:
		return cdc.FormText, cdc.TypeInteger
	case kindDecimal:
		return cdc.FormText, cdc.TypeDecimal
	case kindFloat, kindDouble:
		return cdc.FormText, cdc.TypeFloat
	case kindDatetime, kindOldDatetime:
		return cdc.FormTimestampText, cdc.TypeLocalTime
	case kindTimestamp, kindOldTimestamp:
		return cdc.FormTimestampText, cdc.TypeTime
	case kindUnknown, kindDate, kindTime, kindOldTime:
	}
	return cdc.FormText, cdc.TypeOther
}
