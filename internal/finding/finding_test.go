package finding_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/finding"
)

func TestFailed(t *testing.T) {
	for sentence, want := range map[string][2]string{
		"no colon": {"no colon", ""},
		"ask Kafka: EOF: does it want kafka.tls?":                      {"ask Kafka: EOF", "does it want kafka.tls?"},
		"no topic: create it, or set errors.unknown_topic: drop":       {"no topic", "create it, or set errors.unknown_topic: drop"},
		"publication \"p\" lacks public.outbox: add it":                {"publication \"p\" lacks public.outbox", "add it"},
		"lookup kafka.example.com: no such host: correct the name":     {"lookup kafka.example.com: no such host", "correct the name"},
		`table "a: b" is missing (it says: no): make it`:               {`table "a: b" is missing (it says: no)`, "make it"},
		"no position: run `cdc-relay position set GTID: x` and go on":  {"no position", "run `cdc-relay position set GTID: x` and go on"},
		"one thing is wrong: mend it\nanother is wrong: mend that too": {"one thing is wrong: mend it; another is wrong: mend that too", ""},
	} {
		f := finding.Failed("x", errors.New(sentence))
		if f.Text != want[0] || f.Fix != want[1] || f.Severity != finding.Fail || f.Subject != "x" {
			t.Errorf("%s: %+v", sentence, f)
		}
	}
}

func TestFailedTakesTheFixField(t *testing.T) {
	err := fmt.Errorf("save: %w", cdc.Stop(cdc.ClassRuntime, "full", errors.New("the file is full: 0 bytes left"), "free space: soon"))
	f := finding.Failed("x", err)
	if f.Text != "save: the file is full: 0 bytes left" || f.Fix != "free space: soon" {
		t.Errorf("%+v", f)
	}
}

func TestString(t *testing.T) {
	for want, f := range map[string]finding.Finding{
		"ok    slot: stands.":                   {Severity: finding.OK, Subject: "slot", Text: "stands"},
		"fail  slot: is gone. Fix: make it.":    {Severity: finding.Fail, Subject: "slot", Text: "is gone.", Fix: "make it"},
		"warn  kafka: hung up. Fix: is it TLS?": {Severity: finding.Warn, Subject: "kafka", Text: "hung up", Fix: "is it TLS?"},
	} {
		if have := f.String(); have != want {
			t.Errorf("have %s, want %s", have, want)
		}
	}
}
