package binlog

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A hint is read as it was written, and no text is taken for another one.
func TestHintText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := hint{
			server: rapid.StringMatching(`[0-9a-f-]{1,36}`).Draw(t, "server"), file: rapid.StringMatching(`[a-zA-Z0-9._-]{1,20}`).Draw(t, "file"),
			offset: rapid.Uint32().Draw(t, "offset"), behind: rapid.Uint32().Draw(t, "behind"),
		}
		if got := parseHint(h.text()); got != h {
			t.Fatalf("%+v became %+v", h, got)
		}
	})
	for _, text := range []string{"", "a", "a/b/1", "a/b/1/2/3", "a/b/x/1", "a/b/1/-1", "a/b/4294967296/0", "a//1/2", "/b/1/2"} {
		if got := parseHint(text); got != (hint{}) {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// An event's place is known if nothing is left out before it, up to 4 GiB.
func TestPlace(t *testing.T) {
	const gtidEvent, rows = replication.GTID_EVENT, replication.WRITE_ROWS_EVENTv2
	type passed struct {
		kind replication.EventType
		end  uint32
		size int
		at   uint32 // 0: not known
	}
	for name, events := range map[string][]passed{
		"in a row":             {{gtidEvent, 200, 100, 0}, {rows, 300, 100, 200}, {gtidEvent, 350, 50, 300}},
		"without checksums":    {{gtidEvent, 200, 96, 0}, {rows, 300, 96, 200}},
		"left out":             {{gtidEvent, 200, 100, 0}, {gtidEvent, 900, 100, 0}, {rows, 1000, 100, 900}},
		"without a place":      {{gtidEvent, 200, 100, 0}, {rows, 0, 100, 0}, {rows, 400, 100, 0}, {gtidEvent, 500, 100, 400}},
		"heartbeat":            {{gtidEvent, 200, 100, 0}, {replication.HEARTBEAT_EVENT, 777, 40, 0}, {rows, 300, 100, 200}},
		"next file":            {{gtidEvent, 200, 100, 0}, {replication.ROTATE_EVENT, 0, 40, 0}, {gtidEvent, 300, 100, 0}},
		"more than 4 GiB":      {{gtidEvent, 1<<32 - 10, 100, 0}, {rows, 90, 100, 1<<32 - 10}, {rows, 190, 100, 0}},
		"larger than its room": {{gtidEvent, 200, 100, 0}, {rows, 300, 1000, 0}},
	} {
		p := place{fileEnd: fileEnd{file: "binlog.000001"}}
		for i, e := range events {
			raw := make([]byte, eventHeader+8, eventHeader+16)
			raw[4] = byte(e.kind)
			binary.LittleEndian.PutUint32(raw[13:], e.end)
			if e.kind == replication.ROTATE_EVENT {
				raw = append(raw, "next"...)
			}
			p.pass(event{raw}, e.size)
			if got := p.hint("server").offset; got != e.at {
				t.Errorf("%s: event %d begins at %d, want %d", name, i, got, e.at)
			}
		}
		if renamed := p.file == "next"; renamed != (name == "next file") {
			t.Errorf("%s: the file is %s", name, p.file)
		}
	}
}

// What a server sends again is recognised by where it was asked to begin.
func TestRepetition(t *testing.T) {
	for _, tt := range []struct {
		flavor  cdc.Flavor
		from    string
		counted uint32
		sent    []string
		want    repeatState
	}{
		{cdc.MySQL, sid + ":1-5", 0, []string{sid + ":5"}, repeated},
		{cdc.MySQL, sid + ":1-5", 0, []string{sid + ":6"}, passed},
		{cdc.MySQL, sid + ":1-5", 0, []string{sid + ":5", sid + ":6"}, passed},
		{cdc.MySQL, sid + ":1-5", 1, []string{sid + ":5"}, repeated},
		{cdc.MySQL, sid + ":1-5", 1, []string{sid + ":4"}, passed},
		{cdc.MariaDB, "0-1-5", 0, []string{"0-1-5"}, repeated},
		{cdc.MariaDB, "0-1-7,7-1-2", 0, []string{"0-1-5", "0-1-6"}, repeating},
		{cdc.MariaDB, "0-1-7,7-1-2", 0, []string{"0-1-5", "0-1-6", "0-1-7"}, repeated},
		{cdc.MariaDB, "0-1-7,7-1-2", 0, []string{"0-1-5", "7-1-3"}, passed},
		{cdc.MariaDB, "0-1-7", 0, []string{"0-1-5", "0-2-8"}, passed},
		{cdc.MariaDB, "0-1-6,7-1-2", 3, []string{"0-1-5", "7-1-2", "0-1-6"}, repeated},
		{cdc.MariaDB, "0-1-6,7-1-2", 3, []string{"0-1-5", "0-1-6", "7-1-2"}, repeated},
		{cdc.MariaDB, "0-1-6,7-1-2", 3, []string{"0-1-6", "7-1-2", "0-1-6"}, passed},
		{cdc.MariaDB, "0-1-6,7-1-2", 2, []string{"0-1-5", "7-1-1"}, passed},
		{cdc.MariaDB, "0-1-3", 2, []string{"0-1-5", "0-1-3"}, repeated}, // without gtid_strict_mode
	} {
		from, err := mysql.ParseSet(tt.flavor, tt.from)
		testenv.Must(t, err)
		first := parseStamp(tt.flavor, cdc.Position(map[cdc.Flavor]string{cdc.MySQL: sid + ":5", cdc.MariaDB: "0-1-5"}[tt.flavor]+"@1")).tx
		r := repetition{from: from, first: first, counted: tt.counted}
		for text := range slices.Values(tt.sent) {
			r.begin(parseStamp(tt.flavor, cdc.Position(text+"@1")).tx)
		}
		if r.state != tt.want {
			t.Errorf("behind %s, %d counted, %v: state %d, want %d", tt.from, tt.counted, tt.sent, r.state, tt.want)
		}
	}
}
