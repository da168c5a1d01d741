package cdc_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

func TestProblemsKeepTheirTimeUntilTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var problems cdc.Problems
		began := time.Now()
		refused, silent := errors.New("refused"), errors.New("silent")
		problems.Report("a", cdc.Problem{With: cdc.OnKafka, Server: "k1", Err: refused})
		<-time.After(time.Second)
		problems.Report("b", cdc.Problem{With: cdc.OnDatabase, Err: silent, Since: began.Add(-time.Minute)})
		problems.Report("a", cdc.Problem{With: cdc.OnKafka, Server: "k2", Err: refused}, cdc.Problem{With: cdc.OnKafka, Server: "k1", Err: silent})
		want := []struct {
			with   cdc.Dependency
			server string
			since  time.Duration
		}{{cdc.OnDatabase, "", -time.Minute}, {cdc.OnKafka, "k1", 0}, {cdc.OnKafka, "k2", time.Second}}
		got := problems.List()
		if len(got) != len(want) {
			t.Fatalf("%+v", got)
		}
		for i, w := range want {
			if g := got[i]; g.With != w.with || g.Server != w.server || g.Since.Sub(began) != w.since {
				t.Errorf("%d: %+v, want %+v", i, g, w)
			}
		}
		problems.Report("b")
		problems.Report("a")
		<-time.After(time.Second)
		problems.Report("a", cdc.Problem{With: cdc.OnKafka, Server: "k1", Err: refused})
		if got = problems.List(); len(got) != 1 || got[0].Since.Sub(began) != 2*time.Second {
			t.Errorf("a problem that came back is as old as the first: %+v", got)
		}
	})
}
