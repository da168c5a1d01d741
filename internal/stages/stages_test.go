package stages

import (
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/source"
)

func TestRetryReachesEveryStage(t *testing.T) {
	c := &config.Config{Retry: config.Retry{Initial: 3 * time.Second, Max: 7 * time.Second}}
	p := publisherOptions(c)
	r := RelayOptions(c, &source.Postgres{}, nil)
	for stage, have := range map[string]config.Retry{
		"publisher": {Initial: p.RetryInitial, Max: p.RetryMax}, "relay": {Initial: r.RetryInitial, Max: r.RetryMax},
	} {
		if have != c.Retry {
			t.Errorf("the %s retries after %+v, want %+v", stage, have, c.Retry)
		}
	}
}

func TestPositionsAreLoggedAsTheDatabasePrintsThem(t *testing.T) {
	for _, tt := range []struct {
		db         source.Database
		have, want string
	}{
		{&source.Postgres{}, "00000016B374D848", "16/B374D848"},
		{&source.Postgres{}, "", ""},
		{&source.MySQL{}, "0-1-7", "0-1-7"},
		{&source.MySQL{}, "00000016B374D848", "00000016B374D848"}, // no GTID set, but an LSN of PostgreSQL
	} {
		if got := RelayOptions(&config.Config{}, tt.db, nil).Display(cdc.Position(tt.have)); got != tt.want {
			t.Errorf("%T shows %q as %q, want %q", tt.db, tt.have, got, tt.want)
		}
	}
}
