package binlog

import (
	"encoding/binary"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// lowest returns the lowest bytes of v, the lowest first.
func lowest(size int, v uint64) string {
	return string(binary.LittleEndian.AppendUint64(nil, v)[:size])
}

// A description that no server writes makes the table unreadable.
func TestDescriptionsThatCannotBeRead(t *testing.T) {
	for _, tt := range []struct {
		name string
		tp   byte
		meta uint16
	}{
		{"length of no bytes", gomysql.MYSQL_TYPE_BLOB, 0},
		{"length of 8 bytes", gomysql.MYSQL_TYPE_BLOB, 8},
		{"document behind 5", gomysql.MYSQL_TYPE_JSON, 5},
		{"ENUM of 3", gomysql.MYSQL_TYPE_STRING, uint16(gomysql.MYSQL_TYPE_ENUM)<<8 | 3},
		{"SET of 9", gomysql.MYSQL_TYPE_STRING, uint16(gomysql.MYSQL_TYPE_SET)<<8 | 9},
		{"BIT(0)", gomysql.MYSQL_TYPE_BIT, 0},
		{"BIT(65)", gomysql.MYSQL_TYPE_BIT, 1<<8 | 64},
		{"DECIMAL(0)", gomysql.MYSQL_TYPE_NEWDECIMAL, 0},
		{"DECIMAL(5,6)", gomysql.MYSQL_TYPE_NEWDECIMAL, 5<<8 | 6},
		{"DECIMAL(200)", gomysql.MYSQL_TYPE_NEWDECIMAL, 200 << 8},
		{"TIME(7)", gomysql.MYSQL_TYPE_TIME2, 7},
		{"DATETIME(256)", gomysql.MYSQL_TYPE_DATETIME2, 256},
		{"compressed", 141, 0},
	} {
		if c := columnOf(tt.tp, tt.meta, false, mysql.CharsetBinary); c.kind != kindUnknown {
			t.Errorf("%s is read: %+v", tt.name, c)
		}
	}
}

// Old times have a sign. What cannot be a time in the old form is one in another, whose size is the same.
func TestOldTimes(t *testing.T) {
	for _, tt := range []struct {
		tp         byte
		data, want string // "": none
	}{
		{gomysql.MYSQL_TYPE_TIME, lowest(3, 1<<24-8385959), "-838:59:59"},
		{gomysql.MYSQL_TYPE_TIME, lowest(3, 1<<24-1), "-00:00:01"},
		{gomysql.MYSQL_TYPE_DATETIME, lowest(8, 99991231235959), "9999-12-31 23:59:59"},
		{gomysql.MYSQL_TYPE_DATETIME, lowest(8, 99991231235960), ""},
	} {
		c := columnOf(tt.tp, 0, false, mysql.CharsetBinary)
		got, n := c.value(nil, []byte(tt.data))
		if string(got) != tt.want || (n < 0) != (tt.want == "") {
			t.Errorf("%x: %q, %d, want %q", tt.data, got, n, tt.want)
		}
	}
}
