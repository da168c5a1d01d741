package cdc_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// An outage is logged when it has lasted for a second, when its cause changes, at growing intervals, and at its end.
func TestProblemsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "since" {
				return slog.Attr{}
			}
			return a
		}}))
		problems := cdc.NewProblems(log)
		refused, silent := errors.New("refused"), errors.New("timeout")
		kafka := func(after time.Duration, text string, found ...error) {
			t.Helper()
			for i, err := range found {
				problems.Report("publisher", cdc.Problem{With: cdc.OnKafka, Err: fmt.Errorf("dial port %d: %w", i, err)})
			}
			if found == nil {
				problems.Report("publisher")
			}
			<-time.After(after)
			synctest.Wait()
			if got := strings.TrimSpace(out.String()); got != text {
				t.Errorf("logged:\n%s\nwant:\n%s", got, text)
			}
			out.Reset()
		}
		const lasts = `level=WARN msg="cannot publish, retrying" error="dial port 0: `
		kafka(time.Second/2, "", refused)
		kafka(time.Second/2, "")
		kafka(time.Second, lasts+`refused"`, refused)
		kafka(2*time.Second, lasts+`timeout"`, silent)
		kafka(7*time.Second, lasts+`refused"`, refused)
		kafka(137500*time.Millisecond, lasts+`timeout"`, silent)
		kafka(0, `level=INFO msg="Kafka works again" after=2m27.5s`)
		problems.Report("save", cdc.Problem{With: cdc.OnCheckpoint, Err: refused})
		problems.Clear() // the relay has stopped
		kafka(time.Hour, "")
	})
}
