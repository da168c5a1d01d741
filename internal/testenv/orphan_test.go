package testenv_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// childMode makes this test binary a process that starts servers and then waits to be killed.
const childMode = "CDC_RELAY_TESTENV_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		fmt.Fprintln(os.Stderr, startAndWait(context.Background()))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// running is what the child reports about its servers.
type running struct {
	PIDs []int
	Dirs []string
}

// startAndWait starts one server of each kind; it pauses one and stops another.
func startAndWait(ctx context.Context) error {
	pg, err := testenv.StartPostgres(ctx, testenv.PostgresOptions{})
	if err != nil {
		return err
	}
	stopped, err := testenv.StartRedis(ctx, testenv.RedisOptions{})
	if err != nil {
		return err
	}
	paused, err := testenv.StartRedis(ctx, testenv.RedisOptions{})
	if err != nil {
		return err
	}
	kafka, err := testenv.StartKafka(ctx, testenv.KafkaOptions{})
	if err != nil {
		return err
	}
	my, err := testenv.StartMySQL(ctx, testenv.MySQLOptions{})
	if err != nil {
		return err
	}
	backends, err := testenv.Children(pg.PID())
	if err != nil {
		return err
	}
	broker := kafka.Brokers()[0]
	told := running{
		PIDs: append(backends, pg.PID(), my.PID(), paused.PID(), broker.PID()),
		Dirs: []string{filepath.Dir(pg.LogPath()), filepath.Dir(my.LogPath()), filepath.Dir(stopped.LogPath()), filepath.Dir(paused.LogPath()), filepath.Dir(broker.LogPath())},
	}
	if err := errors.Join(stopped.Stop(ctx), paused.Pause()); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until the parent ends, or kills this process
	return err
}

func TestServersEndWhenTheirParentIsKilled(t *testing.T) {
	t.Parallel()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childMode+"=1")
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	must(t, err)
	defer func() { _ = stdin.Close() }()
	stdout, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	must(t, err)
	var told running
	must(t, json.Unmarshal(line, &told))
	if len(told.PIDs) < 7 || len(told.Dirs) != 5 {
		t.Fatalf("incomplete report of the child: %s", line)
	}
	must(t, child.Process.Kill())
	_ = child.Wait()
	await(t, "every server to end", func() bool {
		return !slices.ContainsFunc(told.PIDs, alive)
	})
	await(t, "every folder to be removed", func() bool {
		return !slices.ContainsFunc(told.Dirs, func(dir string) bool {
			_, err := os.Stat(dir)
			return !errors.Is(err, os.ErrNotExist)
		})
	})
}

// alive is false for a zombie too: a container may have no init process that reaps it.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	out, err := exec.Command("ps", "-o", "stat=", "-p", fmt.Sprint(pid)).Output()
	return err != nil || len(out) == 0 || out[0] != 'Z'
}

// await polls until condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("timeout waiting for %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
