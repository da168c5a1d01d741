package mysql

import "testing"

// The rules are those of the servers: do-db stands for all.
func TestFilters(t *testing.T) {
	for _, tt := range []struct {
		do, ignore []string
		caseless   bool
		want       string
	}{
		{nil, nil, false, ""},
		{nil, []string{"other", "Shop"}, false, ""},
		{nil, []string{"other", "Shop"}, true, "replicate-ignore-db=shop"},
		{nil, []string{"other", "shop"}, false, "replicate-ignore-db=shop"},
		{[]string{"other"}, nil, false, "replicate-do-db=other"},
		{[]string{"other", "shop"}, []string{"shop"}, false, ""},
	} {
		f := filter{lists: map[string][]string{"replicate_do_db": tt.do, "replicate_ignore_db": tt.ignore}, caseless: tt.caseless}
		if got := f.database("shop.outbox", "replicate"); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
	for _, tt := range []struct {
		do, ignore, wild []string
		want             string
	}{
		{[]string{"shop.orders"}, nil, nil, "replicate-do-table=shop.orders"},
		{[]string{"shop.orders"}, nil, []string{"shop.%"}, ""},
		{[]string{"shop.outbox"}, []string{"shop.outbox"}, nil, ""},
		{nil, []string{"shop.outbox"}, []string{"shop.%"}, "replicate-ignore-table=shop.outbox"},
	} {
		f := filter{lists: map[string][]string{"replicate_do_table": tt.do, "replicate_ignore_table": tt.ignore, "replicate_wild_do_table": tt.wild}}
		if got := f.table("shop.outbox"); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}
