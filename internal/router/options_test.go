package router_test

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/router"
)

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
