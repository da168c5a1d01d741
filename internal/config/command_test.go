package config_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// withCommand returns a configuration whose passwords are printed by a shell script.
func withCommand(t *testing.T, script string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	testenv.Must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700))
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
	for name, reveal := range map[string]func(context.Context) (string, error){
		"kafka": c.Kafka.SASL.Password.Reveal, "redis": c.Checkpoint.Redis.Password.Reveal, "sentinel": c.Checkpoint.Redis.SentinelPassword.Reveal,
	} {
		if got, err := reveal(t.Context()); got != secret || err != nil {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if dsn, err := c.Source.Postgres.ConnString(t.Context()); err != nil || !strings.Contains(dsn, "hunter2") {
		t.Errorf("%q %v", dsn, err)
	}
	if text := show(t, c) + everyWay(t, c) + everyWay(t, *c) + everyWay(t, *c.Kafka.SASL); strings.Contains(text, "hunter2") {
		t.Error("leaked")
	}
}

// Connects at the same time share one run, also if the program is slow, and its failure: else each would wait in turn for a program that
// hangs.
func TestPasswordCommandIsShared(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script string
		fails  bool
		most   int // runs
	}{
		"token":   {"echo token", false, 1},
		"failure": {"sleep 0.5; exit 1", true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := filepath.Join(t.TempDir(), "runs")
			c := withCommand(t, "echo run >>"+runs+"; "+tt.script)
			done := make(chan error)
			for range 8 {
				go func() {
					_, err := c.Kafka.SASL.Password.Reveal(t.Context())
					done <- err
				}()
			}
			for range 8 {
				if err := <-done; (err != nil) != tt.fails {
					t.Error(err)
				}
			}
			if text, err := os.ReadFile(runs); err != nil || len(text) > tt.most*len("run\n") {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

func TestPasswordCommandFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ script, says string }{
		"nothing":   {"echo", "password printed nothing. Fix: let it print the password on standard output."},
		"exit code": {"echo hunter2; echo 'no hunter2\nhere' >&2; exit 3", "password failed (exit status 3): no *** here. Fix: run it as the relay's user to see why."},
		"trace":     {"echo 'hunter2 x'; printf '%0493d' 0 >&2; set -x; : hunter2 x; exit 1", "password failed (exit status 1): " + strings.Repeat("0", 493) + "+ : ***. Fix: run it as the relay's user to see why."},
		"two lines": {"echo hunter2; echo hunter3; echo hunter3 hunter2 >&2; exit 1", "password failed (exit status 1): *** ***. Fix: run it as the relay's user to see why."},
		"noise":     {"head -c 5000000 /dev/zero | tr '\\0' x >&2; exit 1", "password failed (exit status 1): " + strings.Repeat("x", 500) + ". Fix: run it as the relay's user to see why."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := withCommand(t, tt.script).Kafka.SASL.Password.Reveal(t.Context())
			if err == nil || cdc.Explain(err) != tt.says {
				t.Errorf("have %.700v\nwant %s", cdc.Explain(err), tt.says)
			}
		})
	}
}

func TestPasswordCommandHangs(t *testing.T) {
	t.Parallel()
	_, err := config.RunCommand(t.Context(), config.Command{"sh", "-c", "echo hunter2; sleep 20"}, 100*time.Millisecond)
	if have := cdc.Explain(err); have != "sh did not end within 100ms. Fix: run it as the relay's user to see what it waits for." {
		t.Error(have)
	}
}

// A hanging program does not hold up a relay that ends, and ends with it. It goes on for a caller whose time is up, whose next attempt has
// the output of the same run.
func TestPasswordCommandIsCancelled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runs, ready := filepath.Join(dir, "runs"), filepath.Join(dir, "ready")
	c := withCommand(t, "echo $$ >>"+runs+"; while [ ! -e "+ready+" ]; do sleep 0.01; done; echo hunter2")
	reveal := func(end func(context.Context) (context.Context, context.CancelFunc)) error {
		ctx, cancel := end(t.Context())
		defer cancel()
		_, err := c.Kafka.SASL.Password.Reveal(ctx)
		return err
	}
	ended := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		go func() {
			for text, _ := os.ReadFile(runs); len(text) == 0 && ctx.Err() == nil; text, _ = os.ReadFile(runs) {
				<-time.After(time.Millisecond)
			}
			cancel()
		}()
		return ctx, cancel
	}
	late := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 50*time.Millisecond)
	}
	began := time.Now()
	if err := reveal(ended); !errors.Is(err, context.Canceled) || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	opened := time.AfterFunc(200*time.Millisecond, func() { _ = os.WriteFile(ready, nil, 0o600) })
	defer opened.Stop()
	if err := reveal(late); err != nil {
		t.Error(err)
	}
	if got, err := c.Kafka.SASL.Password.Reveal(t.Context()); got != "hunter2" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	text, _ := os.ReadFile(runs)
	pids := strings.Fields(string(text))
	if len(pids) != 2 { // the cancelled run, and one for both others
		t.Fatalf("%q", text)
	}
	if _, err := os.Stat("/proc/" + pids[0]); err == nil {
		t.Error("the cancelled program runs on")
	}
}

// A file is read without running its commands, whose passwords may cost something or may not be there yet.
func TestPasswordCommandIsNotRunByReading(t *testing.T) {
	t.Parallel()
	for _, source := range []string{`postgres: {dsn: "postgres://relay@db/orders"`, `mysql: {dsn: "relay@tcp(db)/orders"`} {
		mustParse(t, "source: {"+source+", password_command: [\"false\"]}}\nkafka: {brokers: [\"k:1\"]}\ncheckpoint: {file: /x}", nil)
	}
}

// What a program leaves behind does not hold the relay up.
func TestPasswordCommandLeavesAProcess(t *testing.T) {
	t.Parallel()
	got, err := withCommand(t, "sleep 20 & echo token").Kafka.SASL.Password.Reveal(t.Context())
	if got != "token" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}
