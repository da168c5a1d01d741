package binlog

import (
	"fmt"
	"strconv"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// generalRow appends a row that go-mysql decoded.
func (s *schema) generalRow(values []any, arena []byte, spans []cdc.Span) ([]byte, []cdc.Span, error) {
	for i, v := range values {
		if v == nil {
			spans = append(spans, cdc.Span{Len: -1})
			continue
		}
		start := len(arena)
		var err error
		if arena, err = s.columns[i].general(arena, v); err != nil {
			return arena, spans, fmt.Errorf("decode column %s of %s: %w", s.table.Columns[i].Name, s.table, err)
		}
		spans = append(spans, cdc.Span{Off: int32(start), Len: int32(len(arena) - start)})
	}
	return arena, spans, nil
}

// general appends a value as go-mysql hands it out.
func (c *column) general(arena []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		if c.kind == kindDatetime || c.kind == kindTimestamp {
			return mysql.AppendTrimmed(arena, v), nil
		}
		return c.text(arena, []byte(v)), nil
	case []byte:
		if c.kind == kindJSON {
			return appendJSON(arena, v)
		}
		return c.text(arena, v), nil
	case float32:
		return mysql.AppendFloat(arena, float64(v), 32), nil
	case float64:
		return mysql.AppendFloat(arena, v, 64), nil
	}
	n, err := integerOf(v)
	if err != nil {
		return arena, err
	}
	switch {
	case c.real == gomysql.MYSQL_TYPE_ENUM:
		return c.enum(arena, n), nil
	case c.real == gomysql.MYSQL_TYPE_SET:
		return c.set(arena, n), nil
	case c.real == gomysql.MYSQL_TYPE_YEAR:
		return append(arena, digit(int(n/1000)), digit(int(n/100)), digit(int(n/10)), digit(int(n))), nil
	case c.kind == kindUint, c.real == gomysql.MYSQL_TYPE_BIT:
		return strconv.AppendUint(arena, uint64(n), 10), nil
	}
	return strconv.AppendInt(arena, n, 10), nil
}

func integerOf(v any) (int64, error) {
	switch v := v.(type) {
	case int8:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case int64:
		return v, nil
	case int:
		return int64(v), nil
	case uint8:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case uint64:
		return int64(v), nil
	}
	return 0, fmt.Errorf("a value of type %T", v)
}

// enum appends the name of an ENUM's value; 0 is the empty one that stands for an invalid value.
func (c *column) enum(arena []byte, n int64) []byte {
	if n < 1 || int(n) > len(c.names) {
		return arena
	}
	return append(arena, c.names[n-1]...)
}

func (c *column) set(arena []byte, bits int64) []byte {
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
