package cdctest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// A printed command is taken as a shell takes it, and one that cannot be typed is an error.
func TestPrintedCommand(t *testing.T) {
	for _, tt := range []struct {
		message, start string
		fill, want     []string
		err            string
	}{
		{"x. Fix: run `cdc-relay repair --since TIME`.", "repair", []string{"TIME", "2026-01-02T00:00:00Z"}, []string{"repair", "--since", "2026-01-02T00:00:00Z"}, ""},
		{"Fix: `cdc-relay repair`, or `cdc-relay repair --all`", "repair", nil, []string{"repair"}, ""},
		{"Fix: `cdc-relay position set 'a b:1-2'`", "position set", nil, []string{"position", "set", "a b:1-2"}, ""},
		{"Fix: `cdc-relay repair --since TIME`", "repair", nil, nil, `what is "TIME"?`},
		{"Fix: `cdc-relay repair --all`", "repair", []string{"TIME", "x"}, nil, "has no TIME"},
		{"Fix: `cdc-relay partitions run --ttl ...`", "partitions", nil, nil, `what is "..."?`},
		{"Fix: run cdc-relay repair", "repair", nil, nil, "want one"},
		{"Fix: `cdc-relay repair --all`, or `cdc-relay repair --since x`", "repair", nil, nil, "want one"},
	} {
		args, err := cdctest.PrintedCommand(t.Context(), tt.message, tt.start, tt.fill...)
		if !slices.Equal(args, tt.want) || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %q, %v", tt.message, args, err)
		}
	}
	if sql, err := cdctest.Printed("Fix: run `ALTER TABLE \"a\" SET LOGGED`", "ALTER TABLE"); sql != `ALTER TABLE "a" SET LOGGED` || err != nil {
		t.Errorf("%q, %v", sql, err)
	}
}
