package binlog

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The position before a transaction lacks just that transaction, and names no origin without transactions: MySQL 9.7 crashes if a
// dump request has a tag without intervals.
func TestPositionBeforeATransaction(t *testing.T) {
	for _, tt := range []struct {
		flavor          cdc.Flavor
		set, last, want string
	}{
		{cdc.MySQL, sid + ":1-5", sid + ":5", sid + ":1-4"},
		{cdc.MySQL, sid + ":1-5:7", sid + ":3", sid + ":1-2:4-5:7"},
		{cdc.MySQL, sid + ":1-5:blue:1", sid + ":blue:1", sid + ":1-5"},
		{cdc.MySQL, sid + ":1", sid + ":1", ""},
		{cdc.MariaDB, "0-1-9,7-2-3", "0-1-9", "0-1-8,7-2-3"},
		{cdc.MariaDB, "0-1-9,7-2-3", "0-2-5", "0-2-4,7-2-3"},
	} {
		set, err := mysql.ParseSet(tt.flavor, tt.set)
		testenv.Must(t, err)
		at := set.Before(parseStamp(tt.flavor, cdc.Position(tt.last+"@1")).tx)
		if at == nil || at.String() != tt.want {
			t.Errorf("%s without %s is %v, want %s", tt.set, tt.last, at, tt.want)
			continue
		}
		if s, ok := at.(mysql.IntervalSet); ok {
			for _, tags := range s.MysqlGTIDSet {
				for tag, intervals := range tags {
					if len(intervals) == 0 {
						t.Errorf("%s without %s has tag %q without intervals", tt.set, tt.last, tag)
					}
				}
				if len(tags) == 0 {
					t.Errorf("%s without %s has a server without tags", tt.set, tt.last)
				}
			}
		}
		if set.String() != tt.set {
			t.Errorf("%s became %s", tt.set, set)
		}
	}
}

const sid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

// A transaction that is not in the position has no position before it, nor has the first of a domain of MariaDB.
func TestNoPositionBeforeATransaction(t *testing.T) {
	for set, last := range map[string]string{"0-1-9": "0-1-10", "0-1-1": "0-1-1", "7-1-9": "0-1-5"} {
		at, err := mysql.ParseSet(cdc.MariaDB, set)
		testenv.Must(t, err)
		if got := at.Before(parseStamp(cdc.MariaDB, cdc.Position(last+"@1")).tx); got != nil {
			t.Errorf("%s without %s is %s", set, last, got)
		}
	}
}

// A stamp survives its text; a text that is none is no stamp.
func TestStampText(t *testing.T) {
	for _, f := range []cdc.Flavor{cdc.MySQL, cdc.MariaDB} {
		rapid.Check(t, func(t *rapid.T) {
			s := stamp{origins(t, f)(), rapid.Int64Range(1, 1<<60).Draw(t, "at")}
			if got := parseStamp(f, s.text()); got != s {
				t.Fatalf("%q is %+v, want %+v", s.text(), got, s)
			}
		})
		for _, text := range []cdc.Position{"", "@", "x@1", "0-1-2", "@x", "00000000016B3700"} {
			if got := parseStamp(f, text); got != (stamp{}) {
				t.Errorf("%q is %+v", text, got)
			}
		}
	}
}
