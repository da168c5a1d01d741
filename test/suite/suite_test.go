package main

import (
	"bytes"
	"strings"
	"testing"
)

// What a rerun excuses, and what it does not.
func TestReruns(t *testing.T) {
	for _, tt := range []struct {
		how   string
		fails string // how many runs fail
		err   string
		says  []string
	}{
		{"late", "0", "", []string{"2 passed, 0 failed, 0 of"}},
		{"late", "1", "", []string{"FLAKY github.com/cdc-relay/cdc-relay/test/suite/testdata/fails.TestThat, 1 of 2 runs failed", "the first words", "2 passed, 0 failed, 1 of"}},
		{"late", "2", "", []string{"2 of 3 runs failed"}},
		{"late", "3", "failed", []string{"FAILED github.com/cdc-relay/cdc-relay/test/suite/testdata/fails.TestThat", "1 passed, 1 failed"}},
		{"violation", "1", "1 violations", []string{"VIOLATION in TestThat/sub: lost: event 7", "FLAKY"}},
		{"violation", "2", "2 violations", nil},
		{"outside", "1", "failed", []string{"FAILED outside a test", "a goroutine is left"}},
		{"property", "1", "failed", []string{"a rerun does not count"}},
		{"race", "1", "failed", []string{"a rerun does not count", "DATA RACE"}},
		{"panic", "1", "failed", []string{"at the disco"}},
		{"limit", "1", "failed", []string{"FAILED outside a test: github.com/cdc-relay/cdc-relay/test/suite/testdata/fails ended before TestThat, TestThat/sub"}},
	} {
		t.Run(tt.how+tt.fails, func(t *testing.T) {
			out, err := runFixture(t, tt.how, tt.fails, 2)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("%v, want %q\n%s", err, tt.err, out)
			}
			for _, text := range tt.says {
				if !strings.Contains(out, text) {
					t.Errorf("the output has no %q:\n%s", text, out)
				}
			}
		})
	}
}

func runFixture(t *testing.T, how, fails string, reruns int) (string, error) {
	t.Helper()
	t.Setenv("SUITE_DIR", t.TempDir())
	t.Setenv("SUITE_HOW", how)
	t.Setenv("SUITE_FAILS", fails)
	p := part{packages: []string{"github.com/cdc-relay/cdc-relay/test/suite/testdata/fails"}}
	switch how {
	case "race":
		p.flags = []string{"-race"}
	case "limit":
		p.flags = []string{"-timeout=5s"}
	}
	var out bytes.Buffer
	err := (&suite{dir: t.TempDir(), out: &out, reruns: reruns}).run(t.Context(), []part{p})
	return out.String(), err
}

// The table counts runs and failures.
func TestFlaky(t *testing.T) {
	t.Setenv("SUITE_DIR", t.TempDir())
	t.Setenv("SUITE_HOW", "late")
	t.Setenv("SUITE_FAILS", "1")
	var out bytes.Buffer
	parts := []part{{packages: []string{"github.com/cdc-relay/cdc-relay/test/suite/testdata/fails"}}}
	if err := flaky(t.Context(), t.TempDir(), &out, parts, options{runs: 3}); err == nil {
		t.Error("a flaky test is no error")
	}
	for _, row := range []string{"fails.TestThat | 3 | 1 |", "fails.TestOther | 3 | 0 |"} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("no %q in\n%s", row, &out)
		}
	}
}
