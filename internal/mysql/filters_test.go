package mysql

import (
	"strings"
	"testing"
)

// The rules are those of the servers: of databases first, where do-db stands for all, then of tables in their order.
func TestFilters(t *testing.T) {
	for _, tt := range []struct{ lists, want string }{
		{"", ""},
		{"ignore_db=other", ""},
		{"ignore_db=other,shop", "replicate-ignore-db=shop"},
		{"do_db=other", "replicate-do-db=other"},
		{"do_db=other,shop", ""},
		{"do_db=shop ignore_db=shop", ""},
		{"do_table=shop.orders", "replicate-do-table=shop.orders"},
		{"do_table=shop.outbox ignore_table=shop.outbox", ""},
		{"ignore_table=shop.outbox", "replicate-ignore-table=shop.outbox"},
		{"wild_do_table=shop.out%", ""},
		{"wild_do_table=shop.%s,ot_er.%", "replicate-wild-do-table=shop.%s,ot_er.%"},
		{`wild_do_table=shop.outbo\_ wild_ignore_table=shop.%`, "replicate-wild-ignore-table=shop.%"},
		{"wild_ignore_table=sho_.outbox", "replicate-wild-ignore-table=sho_.outbox"},
		{"wild_ignore_table=shop.out", ""},
	} {
		f := filterOf("replicate_", tt.lists)
		if got := f.replication("shop.outbox"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.lists, got, tt.want)
		}
	}
	f := filterOf("binlog_", "ignore_db=Shop")
	for _, f.caseless = range []bool{false, true} {
		if got := f.database("shop.outbox", "binlog"); (got != "") != f.caseless {
			t.Errorf("caseless %t: %q", f.caseless, got)
		}
	}
}

func filterOf(prefix, lists string) filter {
	f := filter{lists: map[string][]string{}}
	for each := range strings.FieldsSeq(lists) {
		name, list, _ := strings.Cut(each, "=")
		f.lists[prefix+name] = strings.Split(list, ",")
	}
	return f
}
