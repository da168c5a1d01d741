package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
)

// withCommand returns a configuration whose passwords are printed by a shell script.
func withCommand(t *testing.T, script string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return mustParse(t, fmt.Sprintf(`
source: {postgres: {dsn: "postgres://relay@db/orders", password_command: [%[1]q]}}
kafka: {brokers: ["k:1"], sasl: {mechanism: PLAIN, username: u, password_command: [%[1]q]}}
checkpoint: {redis: {mode: sentinel, master_name: m, addrs: ["r:1"], password_command: [%[1]q], sentinel_password_command: [%[1]q]}}
`, path), nil)
}

// A command's output is the password, whatever is in it, and it is shown nowhere.
func TestPasswordCommand(t *testing.T) {
	t.Parallel()
	const secret = `%s"';\ $x é hunter2` + "\nline two"
	c := withCommand(t, "cat <<'END'\n"+secret+"\nEND\n")
	for name, reveal := range map[string]func() (string, error){
		"kafka": c.Kafka.SASL.Reveal, "redis": c.Checkpoint.Redis.Reveal, "sentinel": c.Checkpoint.Redis.RevealSentinel,
	} {
		if got, err := reveal(); got != secret || err != nil {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if dsn, err := c.Source.Postgres.ConnString(); err != nil || !strings.Contains(dsn, "hunter2") {
		t.Errorf("%q %v", dsn, err)
	}
	if text := show(t, c) + everyWay(t, c) + everyWay(t, *c) + everyWay(t, *c.Kafka.SASL); strings.Contains(text, "hunter2") {
		t.Error("leaked")
	}
}

// Connects at the same time share one run, also if the program is slow.
func TestPasswordCommandIsShared(t *testing.T) {
	t.Parallel()
	runs := filepath.Join(t.TempDir(), "runs")
	c := withCommand(t, "echo run >>"+runs+"; echo token")
	done := make(chan error)
	for range 8 {
		go func() {
			_, err := c.Kafka.SASL.Reveal()
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if text, _ := os.ReadFile(runs); string(text) != "run\n" {
		t.Errorf("%q", text)
	}
}

func TestPasswordCommandFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ script, says string }{
		"nothing":   {"echo", "password printed nothing. Fix: let it print the password on standard output."},
		"exit code": {"echo hunter2; echo 'no hunter2\nhere' >&2; exit 3", "password failed (exit status 3): no *** here. Fix: run it as the relay's user to see why."},
		"megabytes": {"head -c 5000000 /dev/zero", "password printed more than 64 KiB. Fix: let it print the password alone."},
		"noise":     {"head -c 5000000 /dev/zero | tr '\\0' x >&2; exit 1", "password failed (exit status 1): " + strings.Repeat("x", 500) + ". Fix: run it as the relay's user to see why."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := withCommand(t, tt.script).Kafka.SASL.Reveal()
			if err == nil || cdc.Explain(err) != tt.says {
				t.Errorf("have %.700v\nwant %s", cdc.Explain(err), tt.says)
			}
		})
	}
}

func TestPasswordCommandHangs(t *testing.T) {
	t.Parallel()
	_, err := config.RunCommand(config.Command{"sh", "-c", "echo hunter2; sleep 1000"}, 100*time.Millisecond)
	if have := cdc.Explain(err); have != "sh did not end within 100ms. Fix: run it as the relay's user to see what it waits for." {
		t.Error(have)
	}
}

// What a program leaves behind does not hold the relay up.
func TestPasswordCommandLeavesAProcess(t *testing.T) {
	t.Parallel()
	got, err := withCommand(t, "sleep 1000 & echo token").Kafka.SASL.Reveal()
	if got != "token" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}
