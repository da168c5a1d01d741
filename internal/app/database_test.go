package app

import (
	"context"
	"errors"
	"testing"
)

// The owner's connection may lead to the primary of a standby, and to a server that does not answer. A copy has the identifier of its original.
func TestServersThatTheOwnerMayUse(t *testing.T) {
	relay := server{cluster: "7", id: "1"}
	for name, tt := range map[string]struct {
		relay, owner server
		err          error
		refused      bool
	}{
		"same":            {relay: relay, owner: relay},
		"copy":            {relay: relay, owner: server{cluster: "7", id: "2"}, refused: true},
		"other cluster":   {relay: relay, owner: server{cluster: "8", id: "1"}, refused: true},
		"standby":         {relay: relay, owner: server{cluster: "7", id: "2", replica: true}},
		"primary":         {relay: server{cluster: "7", id: "2", replica: true}, owner: relay},
		"other standby":   {relay: relay, owner: server{cluster: "8", id: "2", replica: true}, refused: true},
		"does not answer": {relay: relay, err: errors.New("refused")},
	} {
		named := func(name string) ConnString { return func(context.Context) (string, error) { return name, nil } }
		find := func(_ context.Context, dsn ConnString) (server, error) {
			if name, _ := dsn(t.Context()); name == "relay" {
				return tt.relay, nil
			}
			return tt.owner, tt.err
		}
		if err := elsewhere(t.Context(), find, named("relay"), named("owner")); (err != nil) != tt.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
