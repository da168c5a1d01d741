package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

func TestExitCode(t *testing.T) {
	wrong := errors.New("wrong")
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	for _, tt := range []struct {
		err  error
		code int
		says string
	}{
		{nil, 0, ""},
		{wrong, 1, "cdc-relay: wrong\n"},
		{errors.New("topic \x1b[2J\b\u009b31m of\tévent"), 1, "cdc-relay: topic \\x1b[2J\\b\\u009b31m of\tévent\n"},
		{fmt.Errorf("run: %w", context.Canceled), 1, "cdc-relay: interrupted\n"},
		{cdc.Usage("", "%w", wrong), 2, "cdc-relay: wrong\n"},
		{cdc.Usage("correct it", "%w", wrong), 2, "cdc-relay: wrong. Fix: correct it.\n"},
		{errCheckFailed, 3, ""},
		{fmt.Errorf("save: %w", cdc.ErrFenced), 4, "cdc-relay: save: fenced by a newer relay\n"},
		{cdc.Stop(cdc.ClassRuntime, "r", wrong, ""), 1, "cdc-relay: wrong\n"},
		{cdc.Stop(cdc.ClassConfig, "r", wrong, ""), 2, "cdc-relay: wrong\n"},
		{cdc.Stop(cdc.ClassFenced, "r", wrong, ""), 4, "cdc-relay: wrong\n"},
		{errors.Join(cdc.Stop(cdc.ClassPosition, "r", wrong, ""), wrong), 5, "cdc-relay: wrong\ncdc-relay: wrong\n"},
		{errors.Join(cdc.Stop(cdc.ClassPosition, "r", wrong, ""), context.Canceled), 5, "cdc-relay: wrong\ncdc-relay: context canceled\n"},
	} {
		var said strings.Builder
		printError(interrupted, &said, tt.err)
		if code := exitCode(tt.err); code != tt.code || said.String() != tt.says {
			t.Errorf("%v: exit %d, %q", tt.err, code, said.String())
		}
	}
}

// An operation that was canceled without a signal is not an interruption.
func TestCanceledWithoutASignal(t *testing.T) {
	var said strings.Builder
	printError(t.Context(), &said, fmt.Errorf("read the table: %w", context.Canceled))
	if said.String() != "cdc-relay: read the table: context canceled\n" {
		t.Errorf("%q", said.String())
	}
}

// config migrate prints the file, or rewrites it; what has changed is on standard error.
func TestConfigMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("window: {events: 300} # few\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const now = "in_flight: {events: 300} # few\n"
	for _, want := range []struct{ args, out, says, file string }{
		{"config migrate " + path, now, path + ":1: window is now in_flight\n", "window: {events: 300} # few\n"},
		{"config migrate --write " + path, "", path + ":1: window is now in_flight\n", now},
		{"config migrate --config " + path, now, "nothing to change\n", now},
	} {
		var out, says strings.Builder
		code := execute(t.Context(), &cli{stdout: &out, stderr: &says, env: os.LookupEnv}, strings.Fields(want.args))
		if file, err := os.ReadFile(path); code != 0 || out.String() != want.out || says.String() != want.says || string(file) != want.file || err != nil {
			t.Errorf("%s: %d %q %q, the file is %q %v", want.args, code, &out, &says, file, err)
		}
	}
	left, says := os.Mkdir(path+".new", 0o700), new(strings.Builder) // so that the copy, which stays if the file is cut short, cannot be written
	if code := execute(t.Context(), &cli{stdout: says, stderr: says, env: os.LookupEnv}, []string{"config", "migrate", "--write", path}); code == 0 || left != nil {
		t.Error(code, left, says)
	}
}

// What is read for one more release says so on standard error, as standard output may be a program's.
func TestSuccessors(t *testing.T) {
	for args, says := range map[string]string{
		"dlq count -o json -c none":                 "cdc-relay dlq count is read for one more release: use `cdc-relay dlq list --count`\n",
		"partitions list -c none":                   "cdc-relay partitions list is read for one more release: use `cdc-relay retention list`\n",
		"dlq list --from 2026-01-01T00:00:00Z -c x": "--from is read for one more release: use --since\n",
		"repair --all -c none":                      "--all is read for one more release: use `cdc-relay backfill`\n",
	} {
		var out, said strings.Builder
		execute(t.Context(), &cli{stdout: &out, stderr: &said, env: os.LookupEnv}, strings.Fields(args))
		if out.Len() > 0 || !strings.HasPrefix(said.String(), says) {
			t.Errorf("%s: %q, and on standard error %q", args, &out, &said)
		}
	}
}
