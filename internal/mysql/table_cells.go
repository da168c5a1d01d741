package mysql

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysqljson"
)

// cell says how a column is selected, so that it arrives in the form of the binlog, and what a parameter for it is in SQL.
type cell struct {
	sql, param string
	kind       cellKind
	// hex is whether the value is binary, so that as text it is in hex digits.
	hex bool
	// whole is whether it is an integer.
	whole bool
	form  cdc.Form
}

type cellKind uint8

const (
	cellAsIs cellKind = iota
	cellNumber
	cellFloat
	cellDouble
	cellTime
	cellClock
)

// cellOf returns how to select a column of a type. BIT has no text, a FLOAT only six digits of it, and the year 0000 in a subquery
// one. A DECIMAL, with scale digits after the point, is compared with a text as a rounded number.
func cellOf(kind, scale string, c cdc.Column) cell {
	name := QuoteName(c.Name)
	s := cell{sql: name, param: "?", form: c.Form}
	switch kind {
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		s.kind, s.whole = cellNumber, true
	case "decimal":
		s.kind, s.param = cellNumber, "CAST(? AS DECIMAL(65, "+scale+"))"
	case "bit":
		s.sql, s.whole = "CAST("+name+" AS UNSIGNED)", true
	case "year":
		s.sql = "LPAD(" + name + ", 4, '0')"
	case "float":
		s.sql, s.kind = name+" + 0e0", cellFloat
	case "double":
		s.kind = cellDouble
	case "datetime", "timestamp":
		s.kind = cellTime
	case "time":
		s.kind = cellClock
	case "uuid", "inet6":
		s.sql = "CAST(" + name + " AS BINARY(16))"
	case "inet4":
		s.sql = "CAST(" + name + " AS BINARY(4))"
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		s.hex = true
	}
	if c.Form == cdc.FormForeign {
		s.sql = "CAST(" + name + " AS BINARY)"
	}
	return s
}

// append appends a value as the binlog has it.
func (c *cell) append(arena, value []byte) ([]byte, error) {
	switch c.kind {
	case cellNumber:
		return append(arena, withoutZeros(value)...), nil
	case cellFloat, cellDouble:
		bits := 64
		if c.kind == cellFloat {
			bits = 32
		}
		v, err := strconv.ParseFloat(string(value), bits)
		if err != nil {
			return arena, err
		}
		return mysqljson.AppendFloat(arena, v, bits), nil
	case cellTime:
		return appendTrimmed(arena, value), nil
	case cellClock:
		if whole, fraction, _ := bytes.Cut(value, []byte(".")); len(bytes.Trim(fraction, "0")) == 0 {
			value = whole
		}
	case cellAsIs:
	}
	return append(arena, value...), nil
}

// withoutZeros leaves out what ZEROFILL adds.
func withoutZeros(value []byte) []byte {
	for len(value) > 1 && value[0] == '0' && value[1] >= '0' && value[1] <= '9' {
		value = value[1:]
	}
	return value
}

// text returns the SQL for the text that a record has, as bytes, because collations take different texts for one.
func (c *cell) text() string {
	switch {
	case c.hex && c.form == cdc.FormUUID:
		return "LOWER(INSERT(INSERT(INSERT(INSERT(HEX(" + c.sql + "), 9, 0, '-'), 14, 0, '-'), 19, 0, '-'), 24, 0, '-'))"
	case c.hex:
		return "CAST(" + c.sql + " AS BINARY)"
	}
	return "CAST(CAST(" + c.sql + " AS CHAR CHARACTER SET utf8mb4) AS BINARY)"
}

// idKind names the values of a column of IDs.
func (c *cell) idKind() string {
	switch {
	case c.hex && c.form == cdc.FormUUID:
		return "UUID"
	case c.whole:
		return "whole number"
	}
	return "text"
}

// keyOf returns the text that keys have of an ID as records have it, and whether it is one of the column.
func (c *cell) keyOf(id string) (text string, ok bool) {
	switch {
	case c.hex && c.form == cdc.FormUUID:
		text = strings.ReplaceAll(id, "-", "")
		raw, err := hex.DecodeString(text)
		return text, err == nil && len(raw) == UUIDSize
	case c.hex:
		return hex.EncodeToString([]byte(id)), true
	case c.whole:
		_, err := strconv.ParseUint(strings.TrimPrefix(id, "-"), 10, 64)
		return id, err == nil
	}
	return id, true
}

// appendTrimmed leaves out zeros at the end of a fraction of a second.
func appendTrimmed(arena, text []byte) []byte {
	arena = append(arena, text...)
	if len(text) > 20 && text[19] == '.' {
		for arena[len(arena)-1] == '0' {
			arena = arena[:len(arena)-1]
		}
		if arena[len(arena)-1] == '.' {
			arena = arena[:len(arena)-1]
		}
	}
	return arena
}
