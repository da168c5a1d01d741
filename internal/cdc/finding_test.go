package cdc_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

func TestFailedTakesTextAndFixFromTheError(t *testing.T) {
	full := cdc.Stop(cdc.ClassRuntime, "full", errors.New("the file is full: 0 bytes left"), "free space: soon")
	for name, tt := range map[string]struct {
		err       error
		text, fix string
	}{
		"an error without a fix": {errors.New("dial: no such host"), "dial: no such host", ""},
		"a wrapped error":        {fmt.Errorf("save: %w", full), "save: the file is full: 0 bytes left", "free space: soon"},
		"joined errors":          {errors.Join(errors.New("one"), full), "one; the file is full: 0 bytes left", "free space: soon"},
	} {
		want := cdc.Finding{Severity: cdc.SeverityFail, Subject: "x", Text: tt.text, Fix: tt.fix}
		if f := cdc.FailedFinding("x", tt.err); f != want {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestStringEndsWithTheFix(t *testing.T) {
	for want, f := range map[string]cdc.Finding{
		"ok    slot: stands.":                   {Severity: cdc.SeverityOK, Subject: "slot", Text: "stands"},
		"fail  slot: is gone. Fix: make it.":    {Severity: cdc.SeverityFail, Subject: "slot", Text: "is gone.", Fix: "make it"},
		"warn  kafka: hung up. Fix: is it TLS?": {Severity: cdc.SeverityWarn, Subject: "kafka", Text: "hung up", Fix: "is it TLS?"},
	} {
		if have := f.String(); have != want {
			t.Errorf("have %s, want %s", have, want)
		}
	}
}
