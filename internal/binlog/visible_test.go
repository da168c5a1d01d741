package binlog

import (
	"encoding/binary"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A set shows a transaction if it covers the set of that one alone.
func TestExecutedShows(t *testing.T) {
	origins := []mysql.GTID{{SID: uuid.UUID{1}}, {SID: uuid.UUID{2}}, {SID: uuid.UUID{1}, Tag: gomysql.NewTag("blue")}}
	rapid.Check(t, func(t *rapid.T) {
		draw := func() mysql.GTID {
			g := rapid.SampledFrom(origins).Draw(t, "origin")
			g.Number = rapid.Uint64Range(1, 20).Draw(t, "number")
			return g
		}
		empty, err := mysql.ParseSet(cdc.MySQL, "")
		testenv.Must(t, err)
		set := empty.Clone()
		for range rapid.IntRange(0, 30).Draw(t, "transactions") {
			set.Add(draw())
		}
		g, one := draw(), empty.Clone()
		one.Add(g)
		executed, _ := set.(mysql.IntervalSet)
		if got, want := (gtidExecuted{executed}).Shows(committed{id: g}), set.Covers(one); got != want {
			t.Fatalf("%s in %s: %v, want %v", g, set, got, want)
		}
	})
}

// endsAt returns an event that ends at an offset.
func endsAt(offset uint32, kind replication.EventType, flags uint16) event {
	e := eventOf(kind, flags, "")
	binary.LittleEndian.PutUint32(e.raw[13:], offset)
	return e
}

func TestFileEnd(t *testing.T) {
	rotate := func(file string) event {
		return eventOf(replication.ROTATE_EVENT, 0x20, "\x04\x00\x00\x00\x00\x00\x00\x00"+file)
	}
	const artificial = 0x20
	var p fileEnd
	for i, tt := range []struct {
		event event
		want  fileEnd
	}{
		{rotate("binlog.000009"), fileEnd{"binlog.000009", 0}},
		{endsAt(0, replication.FORMAT_DESCRIPTION_EVENT, artificial), fileEnd{"binlog.000009", 0}},
		{endsAt(900, replication.MARIADB_GTID_LIST_EVENT, artificial), fileEnd{"binlog.000009", 0}},
		{endsAt(500, replication.MARIADB_GTID_EVENT, 0), fileEnd{"binlog.000009", 500}},
		{endsAt(0, replication.TABLE_MAP_EVENT, 0), fileEnd{"binlog.000009", 500}},
		{endsAt(600, replication.XID_EVENT, 0), fileEnd{"binlog.000009", 600}},
		{endsAt(700, replication.HEARTBEAT_EVENT, 0), fileEnd{"binlog.000009", 600}},
		{endsAt(1<<32-10, replication.MARIADB_GTID_EVENT, 0), fileEnd{"binlog.000009", 1<<32 - 10}},
		{endsAt(30, replication.XID_EVENT, 0), fileEnd{"binlog.000009", 1<<32 + 30}},
		{endsAt(20, replication.XID_EVENT, 0), fileEnd{"binlog.000009", 2<<32 + 20}},
		{rotate("binlog.1000000"), fileEnd{"binlog.1000000", 0}},
	} {
		if p.pass(tt.event); p != tt.want {
			t.Fatalf("event %d: %v, want %v", i, p, tt.want)
		}
	}
	if n := p.number(); n != 1000000 {
		t.Errorf("number %d", n)
	}
}

func TestSnapshotShows(t *testing.T) {
	snapshot := snapshot{at: fileEnd{"binlog.1000000", 500}, settled: true, exact: true}
	inexact, unsettled := snapshot, snapshot
	inexact.exact, unsettled.settled = false, false
	for tx, shows := range map[fileEnd][3]bool{ // by the snapshot, one that is not exact, and one that is not settled
		{"binlog.1000000", 500}: {true, false, true},
		{"binlog.1000000", 501}: {},
		{"binlog.999999", 9000}: {true, true, false},
		{"binlog.1000001", 4}:   {},
		{"binlog", 4}:           {},
		{}:                      {},
	} {
		c := committed{at: tx}
		if got := [3]bool{snapshot.Shows(c), inexact.Shows(c), unsettled.Shows(c)}; got != shows {
			t.Errorf("%v: %v, want %v", tx, got, shows)
		}
	}
}

// The server has begun a new file, and an offset behind its end is one of the file before. One of a file that is not the last any more
// is not told apart, and the next answer has the next file.
func TestOffsetOfTheFileBefore(t *testing.T) {
	for last, exact := range map[fileEnd]bool{
		{"binlog.000002", 339}: true,
		{"binlog.000002", 340}: false,
		{"binlog.000001", 300}: false,
	} {
		f := freshFile{last: last, settled: true}
		if f.compared("binlog.000002", 339); f.exact != exact {
			t.Errorf("%v: %v, want %v", last, f.exact, exact)
		}
	}
}
