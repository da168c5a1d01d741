package binlog

import (
	"encoding/binary"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

func TestPlainMode(t *testing.T) {
	ss := &session{charsets: map[uint64]mysql.Charset{45: mysql.CharsetUTF8}}
	variables := func(mode uint64, client uint16) []byte {
		b := append([]byte{0, 0, 0, 0, 0, 1}, binary.LittleEndian.AppendUint64(nil, mode)...)
		return append(append(b, 4), byte(client), byte(client>>8), 0, 0, 0, 0)
	}
	for _, tt := range []struct {
		variables []byte
		want      bool
	}{
		{variables(1<<19|1<<21, 45), true},
		{append([]byte{131, 1, 45, 0, 0, 9}, variables(0, 45)...), true},
		{variables(0, 28), false},     // gbk
		{variables(1<<2, 45), false},  // ANSI_QUOTES
		{variables(1<<9, 45), false},  // ORACLE
		{variables(1<<20, 45), false}, // NO_BACKSLASH_ESCAPES
		{nil, false},
	} {
		if got := ss.plainMode(tt.variables); got != tt.want {
			t.Errorf("%x: %v", tt.variables, got)
		}
	}
}
