package binlog

import (
	"encoding/binary"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/statement"
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

// What may have made a trigger or a view makes the relay look again, although it used other databases only.
func TestUnknownStatementsAreLookedBehind(t *testing.T) {
	for text, want := range map[string]int{
		"UPDATE t SET n = 1":                 1,
		"/*M! UPDATE */ RENAME TABLE v TO t": 0,
		"RENAME TABLE v TO t":                0,
	} {
		ss := &session{src: &Source{opts: Options{Options: mysql.Options{Tables: []string{"shop.outbox"}}}}, charsets: map[uint64]mysql.Charset{45: mysql.CharsetUTF8}, shown: map[statement.Tables]bool{{}: true}}
		ss.tx.begun = true
		variables := "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x04-\x00-\x00-\x00\x0c\x01percona\x00"
		if err := ss.otherStatement(t.Context(), &replication.QueryEvent{Query: []byte(text), Schema: []byte("percona"), StatusVars: []byte(variables)}); err != nil || len(ss.shown) != want {
			t.Errorf("%s: %d tables known, %v", text, len(ss.shown), err)
		}
	}
}
