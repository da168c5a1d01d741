package testenv_test

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func TestRedisServesAndKeepsItsData(t *testing.T) {
	r := testenv.Redis(t, testenv.RedisOptions{AppendOnly: true, Password: "secret", TLS: true, Users: []string{"relay on >pw ~a:* +@all"}})
	ctx := t.Context()
	_, err := r.Do(ctx, "SET", "k", "v")
	must(t, err)
	r.Kill()
	must(t, r.Start(ctx))
	must(t, r.Stop(ctx))
	must(t, r.Start(ctx))
	got, err := r.Do(ctx, "GET", "k")
	must(t, err)
	if got != "v" {
		t.Fatalf("got %q", got)
	}
}
