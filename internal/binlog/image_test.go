package binlog

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// field is a column in a table map.
type field struct {
	name     string
	tp       byte
	meta     string
	unsigned bool
	charset  mysql.Charset // 0: the type has none
	names    []string      // of an ENUM or a SET
}

// collations are by ID, one for each character set.
func collations() map[uint64]mysql.Charset {
	return map[uint64]mysql.Charset{45: mysql.CharsetUTF8, 8: mysql.CharsetLatin1, 63: mysql.CharsetBinary}
}

func (f *field) collation() string {
	for id, cs := range collations() {
		if cs == f.charset {
			return string([]byte{byte(id)})
		}
	}
	return ""
}

// counted is text behind its length in size bytes.
func counted(size int, text string) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(text)))[:size]) + text
}

// packed is text behind its length in as few bytes as it needs.
func packed(text string) string { return string(gomysql.PutLengthEncodedString([]byte(text))) }

// tableMap makes the table map of d.outbox.
func tableMap(fields []field) event {
	var types, metas, signs []byte
	optional := map[byte]string{}
	numbers := 0
	add := func(kind byte, text string) { optional[kind] += text }
	for i := range fields {
		f := &fields[i]
		types, metas = append(types, f.tp), append(metas, f.meta...)
		add(replication.TABLE_MAP_OPT_META_COLUMN_NAME, packed(f.name))
		behind := f.tp
		if f.names != nil {
			behind = f.meta[0]
			list := string(gomysql.PutLengthEncodedInt(uint64(len(f.names))))
			for _, name := range f.names {
				list += packed(name)
			}
			kind := replication.TABLE_MAP_OPT_META_ENUM_STR_VALUE
			if behind == gomysql.MYSQL_TYPE_SET {
				kind = replication.TABLE_MAP_OPT_META_SET_STR_VALUE
			}
			add(kind, list)
			add(replication.TABLE_MAP_OPT_META_ENUM_AND_SET_COLUMN_CHARSET, f.collation())
		} else if f.charset != 0 {
			add(replication.TABLE_MAP_OPT_META_COLUMN_CHARSET, f.collation())
		}
		switch behind {
		case gomysql.MYSQL_TYPE_TINY, gomysql.MYSQL_TYPE_SHORT, gomysql.MYSQL_TYPE_INT24, gomysql.MYSQL_TYPE_LONG, gomysql.MYSQL_TYPE_LONGLONG,
			gomysql.MYSQL_TYPE_FLOAT, gomysql.MYSQL_TYPE_DOUBLE, gomysql.MYSQL_TYPE_NEWDECIMAL:
			if numbers%8 == 0 {
				signs = append(signs, 0)
			}
			if f.unsigned {
				signs[numbers/8] |= 0x80 >> (numbers % 8)
			}
			numbers++
		}
	}
	if numbers > 0 {
		add(replication.TABLE_MAP_OPT_META_SIGNEDNESS, string(signs))
	}
	body := "\x01\x00\x00\x00\x00\x00\x01\x00\x01d\x00\x06outbox\x00" + string([]byte{byte(len(fields))}) + string(types) + packed(string(metas)) +
		strings.Repeat("\xff", (len(fields)+7)/8)
	for _, kind := range slices.Sorted(maps.Keys(optional)) {
		body += string([]byte{kind}) + packed(optional[kind])
	}
	return eventOf(replication.TABLE_MAP_EVENT, 0, body)
}

// image is a row as the binlog has it. A value of "NULL" is none.
func image(values []string) string {
	nulls := make([]byte, (len(values)+7)/8)
	var b strings.Builder
	for i, v := range values {
		if v == "NULL" {
			nulls[i/8] |= 1 << (i % 8)
			continue
		}
		b.WriteString(v)
	}
	return string(nulls) + b.String()
}

// rowsOf is an event of rows with so many columns.
func rowsOf(columns int, images string) event {
	return eventOf(replication.WRITE_ROWS_EVENTv2, 0, "\x01\x00\x00\x00\x00\x00\x01\x00\x02\x00"+string([]byte{byte(columns)})+
		string(bytes.Repeat([]byte{0xff}, (columns+7)/8))+images)
}
