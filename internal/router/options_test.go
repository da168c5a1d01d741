package router_test

import (
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/router"
)

// Each error names the setting and the fix.
func TestNewNamesTheWrongSetting(t *testing.T) {
	route := func(topic string, match ...string) func(*router.Options) {
		return func(o *router.Options) {
			r := router.Route{Topic: topic, Match: map[string]string{}}
			for i := 0; i < len(match); i += 2 {
				r.Match[match[i]] = match[i+1]
			}
			o.Routes = append(o.Routes, r)
		}
	}
	tables := func(tables ...router.Table) func(*router.Options) {
		return func(o *router.Options) { o.Tables = tables }
	}
	tests := []struct {
		change func(*router.Options)
		says   string
	}{
		{tables(router.Table{Name: outbox.Name{Table: "a"}, Source: "/"}, router.Table{Name: outbox.Name{Table: "a"}, Source: "/"}), "tables[1].name: a is listed twice"},
		{func(o *router.Options) { o.Tables[0].Only = map[string]string{"status": "("} }, "tables[0].only.status: bad regular expression: error parsing regexp: missing closing )"},
		{func(o *router.Options) { o.Tables[0].Only = map[string]string{"": "a"} }, "tables[0].only: an empty name. Fix: give a column"},
		{route("t", "aggregate_type", "("), "routes[1].match.aggregate_type: bad regular expression: error parsing regexp: missing closing )"},
		{route("t", "aggregate_type", "a)|(b"), "routes[1].match.aggregate_type: bad regular expression"},
		{route("t", "", "x"), "routes[1].match: an empty name. Fix: give a column"},
		{route("t", "topic", "(?<g>a)", "tenant_id", "(?<g>b)"), "routes[1].match: the group g stands in it twice. Fix: rename one"},
		{route("${a"), `routes[1].topic: "${a" has a ${ without a name and a closing }. Fix: write ${column}`},
		{route("a${}"), `routes[1].topic: "a${}" has a ${ without a name`},
	}
	for _, tt := range tests {
		o := options()
		tt.change(&o)
		if _, err := router.New(o); err == nil || !strings.Contains(cdc.Explain(err), tt.says) {
			t.Errorf("got  %s\nwant %s", cdc.Explain(err), tt.says)
		}
	}
}

func TestDefaultSource(t *testing.T) {
	if got := router.DefaultSource("my shop", "public.outbox"); got != "/my%20shop/public.outbox" {
		t.Error(got)
	}
	o := options()
	o.Tables[0].Source = router.DefaultSource("a/b?c", `x"y`)
	newRouter(t, o)
}

// ce_source goes before the table's own.
func TestSource(t *testing.T) {
	o := options()
	o.Source = "https://shop.example/orders"
	o.Tables[0].Source = ""
	if got, _ := header(one(t, o, native(), order()), "ce_source"); got != o.Source {
		t.Error(got)
	}
}
