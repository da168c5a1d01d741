package binlog

import (
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// kind says how a column's values stand in the binlog and what becomes of them.
type kind uint8

const (
	// kindOther is decoded by go-mysql's general decoder, with the whole row.
	kindOther kind = iota
	kindInt        // little-endian integer of size bytes
	kindUint
	kindString   // length of one or two bytes, by size
	kindBlob     // length of size bytes
	kindDatetime // DATETIME2 with size digits of fraction
	kindTimestamp
	kindJSON // MySQL's binary form behind a length of size bytes
)

// column is how to read one column.
type column struct {
	kind kind
	// real is the type behind the binlog's MYSQL_TYPE_STRING, which also stands for ENUM and SET.
	real    byte
	size    int
	charset mysql.Charset
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

// readable are the types that can be read. The description of a column behind another type would be read from the
// wrong place.
func readable(tp byte) bool {
	switch tp {
	case gomysql.MYSQL_TYPE_TINY, gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_INT24, gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_LONGLONG,
		gomysql.MYSQL_TYPE_FLOAT, gomysql.MYSQL_TYPE_DOUBLE, gomysql.MYSQL_TYPE_NEWDECIMAL, gomysql.MYSQL_TYPE_BIT, gomysql.MYSQL_TYPE_YEAR,
		gomysql.MYSQL_TYPE_DATE, gomysql.MYSQL_TYPE_TIME, gomysql.MYSQL_TYPE_TIME2, gomysql.MYSQL_TYPE_DATETIME, gomysql.MYSQL_TYPE_DATETIME2,
		gomysql.MYSQL_TYPE_TIMESTAMP, gomysql.MYSQL_TYPE_TIMESTAMP2, gomysql.MYSQL_TYPE_STRING, gomysql.MYSQL_TYPE_VAR_STRING,
		gomysql.MYSQL_TYPE_VARCHAR, gomysql.MYSQL_TYPE_BLOB, gomysql.MYSQL_TYPE_ENUM, gomysql.MYSQL_TYPE_SET, gomysql.MYSQL_TYPE_JSON,
		gomysql.MYSQL_TYPE_GEOMETRY:
		return true
	}
	return false
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

// columnOf reads a table map's description of a column.
func columnOf(tp byte, meta uint16, unsigned bool, cs mysql.Charset) column {
	c := column{charset: cs}
	var length int
	c.real, length = realType(tp, meta)
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
		c.kind, c.size = kindBlob, int(meta)
	case gomysql.MYSQL_TYPE_JSON:
		c.kind, c.size = kindJSON, int(meta)
	case gomysql.MYSQL_TYPE_DATETIME2:
		c.kind, c.size = kindDatetime, int(meta)
	case gomysql.MYSQL_TYPE_TIMESTAMP2:
		c.kind, c.size = kindTimestamp, int(meta)
	}
	if c.kind == kindInt && unsigned {
		c.kind = kindUint
	}
	return c
}

// form is how the column's values stand in a batch's arena.
func (c *column) form(length int) cdc.Form {
	switch {
	case c.charset == mysql.CharsetBinary && c.kind == kindString && length == mysql.UUIDSize:
		return cdc.FormUUID
	case c.charset == mysql.CharsetBinary && (c.kind == kindString || c.kind == kindBlob):
		return cdc.FormBytes
	case c.kind == kindDatetime, c.kind == kindTimestamp:
		return cdc.FormTimestampText
	}
	return cdc.FormText
}
