package mysql

import (
	"slices"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const (
	serverA = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	serverB = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
)

func TestParseSet(t *testing.T) {
	for _, tt := range []struct {
		flavor     cdc.Flavor
		text, want string // want "": refused
	}{
		{cdc.MySQL, "", ""},
		{cdc.MySQL, serverA + ":1-5", serverA + ":1-5"},
		{cdc.MySQL, serverB + ":1-3:7,\n" + serverA + ":2", serverA + ":2," + serverB + ":1-3:7"},
		{cdc.MySQL, serverA + ":1-3:blue:4", serverA + ":1-3:blue:4"},
		{cdc.MySQL, "0-1-42", "refused"},
		{cdc.MariaDB, "", ""},
		{cdc.MariaDB, "1-2-7,0-1-42", "0-1-42,1-2-7"},
		{cdc.MariaDB, "0-1-42,0-2-50", "refused"},
		{cdc.MariaDB, "0-1", "refused"},
		{cdc.MariaDB, "0-1-x", "refused"},
	} {
		set, err := ParseSet(tt.flavor, tt.text)
		if tt.want == "refused" {
			if err == nil {
				t.Errorf("%s %q: not refused", tt.flavor, tt.text)
			}
			continue
		}
		if err != nil || set.String() != tt.want {
			t.Errorf("%s %q: %v, %v, want %q", tt.flavor, tt.text, set, err, tt.want)
		}
	}
}

// A set that grew covers what it was before, not the other way round, and reads back from its text.
func TestSetsGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flavor := rapid.SampledFrom([]cdc.Flavor{cdc.MySQL, cdc.MariaDB}).Draw(t, "flavor")
		set, err := ParseSet(flavor, "")
		if err != nil {
			t.Fatal(err)
		}
		last := map[uint32]uint64{}
		for range rapid.IntRange(1, 30).Draw(t, "transactions") {
			before := set.Clone()
			domain := rapid.Uint32Range(0, 2).Draw(t, "origin")
			last[domain] += rapid.Uint64Range(1, 3).Draw(t, "step")
			set.Add(GTID{SID: uuid.UUID{byte(domain)}, Domain: domain, Server: domain + 1, Number: last[domain]})
			if !set.Covers(before) || before.Covers(set) {
				t.Fatalf("%s grew to %s", before, set)
			}
			again, err := ParseSet(flavor, set.String())
			if err != nil || again.String() != set.String() || !again.Covers(set) || !set.Covers(again) {
				t.Fatalf("%s reads back as %s, %v", set, again, err)
			}
		}
	})
}

// Intervals that are put in one by one, in any order, are what sorting all of them gives.
func TestInsertedIntervals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set, all mysql.IntervalSlice
		for range rapid.IntRange(1, 30).Draw(t, "intervals") {
			start := rapid.Int64Range(1, 40).Draw(t, "start")
			x := mysql.Interval{Start: start, Stop: start + rapid.Int64Range(1, 5).Draw(t, "size")}
			all = append(all, x)
			set = inserted(set, x)
			if want := slices.Clone(all).Normalize(); !slices.Equal(set, want) {
				t.Fatalf("%v with %v is %v, want %v", all, x, set, want)
			}
		}
	})
}

// One more transaction costs the same in a set with many gaps.
func TestGrowingWithManyGaps(t *testing.T) {
	sid := uuid.MustParse(serverA)
	gaps := make(mysql.IntervalSlice, 100_000)
	for i := range gaps {
		gaps[i] = mysql.Interval{Start: int64(2*i + 1), Stop: int64(2*i + 2)}
	}
	set := IntervalSet{mysql.MysqlGTIDSet{sid: {mysql.Tag{}: gaps}}}
	number := uint64(gaps[len(gaps)-1].Stop)
	if n := testing.AllocsPerRun(100, func() {
		set.Add(GTID{SID: sid, Number: number})
		number++
	}); n > 0 || len(set.MysqlGTIDSet[sid][mysql.Tag{}]) != len(gaps) {
		t.Errorf("%v allocations a transaction, %d intervals", n, len(set.MysqlGTIDSet[sid][mysql.Tag{}]))
	}
}
