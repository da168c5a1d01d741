package testenv

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestEntryIsFilledOnceByManyAtOnce(t *testing.T) {
	s := &store{dir: t.TempDir(), out: io.Discard}
	var fills atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			dir, err := s.entry(t.Context(), "thing", func(dir string) error {
				fills.Add(1)
				return os.WriteFile(filepath.Join(dir, "file"), []byte("whole"), 0o644)
			})
			if err != nil {
				t.Error(err)
				return
			}
			if text, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(text) != "whole" {
				t.Errorf("got %q, %v", text, err)
			}
		})
	}
	group.Wait()
	if fills.Load() != 1 {
		t.Fatalf("filled %d times", fills.Load())
	}
}

func TestFailedFillLeavesNothing(t *testing.T) {
	s := &store{dir: t.TempDir(), out: io.Discard}
	left := filepath.Join(s.dir, "tmp-thing-of-a-killed-process")
	if err := os.Mkdir(left, 0o755); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no network")
	_, err := s.entry(t.Context(), "thing", func(dir string) error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "half"), nil, 0o644), broken)
	})
	if !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	names, err := filepath.Glob(filepath.Join(s.dir, "*thing*"))
	if err != nil || len(names) != 1 || names[0] != filepath.Join(s.dir, "thing.lock") {
		t.Fatalf("left behind: %v, %v", names, err)
	}
	if _, err := s.entry(t.Context(), "thing", func(string) error { return nil }); err != nil {
		t.Fatalf("the next try: %v", err)
	}
}

func TestWaitingForAnotherProcessEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	if _, err := lockFile(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}

func TestDebianClosureTakesLibrariesOnly(t *testing.T) {
	plan := "Reading package lists...\nInst libpq5 (15.1 Debian [amd64])\nInst libllvm14 (1 Debian [amd64])\n" +
		"Inst postgresql-common (248 Debian [all])\nInst postgresql-15 (15.1 Debian [amd64])\nConf libpq5 (15.1)\n"
	got := debianClosure(plan, []string{"postgresql-15"})
	if len(got) != 2 || got[0] != "postgresql-15" || got[1] != "libpq5" {
		t.Fatalf("got %v", got)
	}
}
