package checkpoint_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func newFile(t *testing.T) (file *checkpoint.File, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "checkpoint")
	file = openFile(t, path)
	t.Cleanup(func() { _ = file.Close() })
	return file, path
}

func numbered(generation, sequence uint64) cdc.Checkpoint {
	c := example()
	c.Generation, c.Sequence = generation, sequence
	return c
}

func wantStop(t *testing.T, err error, class cdc.Class, parts ...string) {
	t.Helper()
	var stop *cdc.StopError
	if !errors.As(err, &stop) || stop.Class != class {
		t.Fatalf("want a stop of class %d, got %v", class, err)
	}
	wantSentence(t, err, parts)
}

func wantPassing(t *testing.T, err error, parts ...string) {
	t.Helper()
	var stop *cdc.StopError
	if err == nil || errors.As(err, &stop) {
		t.Fatalf("want an error that may pass, got %v", err)
	}
	wantSentence(t, err, parts)
}

func wantSentence(t *testing.T, err error, parts []string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(cdc.Explain(err), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
}

func TestFileForm(t *testing.T) {
	file, path := newFile(t)
	testenv.Must(t, file.Save(t.Context(), example()))
	content, err := os.ReadFile(path)
	testenv.Must(t, err)
	if string(content) != stored+"\n" {
		t.Errorf("%s", content)
	}
	for _, name := range []string{path, path + ".lock"} {
		info, err := os.Stat(name)
		testenv.Must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", name, info.Mode())
		}
	}
}

// One process at a time may write; all may read.
func TestFileIsLocked(t *testing.T) {
	first, path := newFile(t)
	second := openFile(t, path)
	defer second.Close()
	if _, _, err := second.Load(t.Context()); err != nil {
		t.Fatalf("load by a standby: %v", err)
	}
	testenv.Must(t, first.Save(t.Context(), numbered(1, 1)))
	wantPassing(t, second.Save(t.Context(), numbered(2, 1)), path, "in use by another process", "stop the other relay")
	wantPassing(t, second.Reset(t.Context()), "in use by another process")
	if c, _, err := second.Load(t.Context()); err != nil || c.Generation != 1 {
		t.Errorf("load while another writes: %+v, %v", c, err)
	}
	testenv.Must(t, first.Close())
	testenv.Must(t, second.Save(t.Context(), numbered(2, 1)))
	wantPassing(t, first.Save(t.Context(), numbered(3, 1)), "in use by another process")
}

// Files that a crash left behind do not prevent a save.
func TestFileIgnoresWhatACrashLeft(t *testing.T) {
	file, path := newFile(t)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for _, leave := range []func() error{
		func() error { return os.WriteFile(path+".tmp", []byte("half of a"), 0o644) },
		func() error { return os.Symlink(elsewhere, path+".tmp") },
	} {
		testenv.Must(t, leave())
		c, _, err := file.Load(t.Context())
		testenv.Must(t, err)
		testenv.Must(t, file.Save(t.Context(), numbered(1, c.Sequence+1)))
		if _, err := os.Lstat(path + ".tmp"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the temporary file stayed: %v", err)
		}
	}
	if _, err := os.Stat(elsewhere); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a save followed a link: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// An error of configuration ends a run that has never saved. In a run that has, it may pass.
//
//covers:all 30 messages
func TestFileErrors(t *testing.T) {
	for _, c := range []struct {
		errno   syscall.Errno
		mistake bool
		parts   []string
	}{
		{syscall.EACCES, true, []string{"permission denied", "run this as the relay's user", "uid " + strconv.Itoa(os.Getuid())}},
		{syscall.EROFS, true, []string{"read-only file system", "copy the checkpoint", "checkpoint.file"}},
		{syscall.ENOSPC, false, []string{"disk full", "free space under "}},
		{syscall.EDQUOT, false, []string{"disk full"}},
		{syscall.EMFILE, false, []string{"no file descriptor", "ulimit -n"}},
		{syscall.EIO, false, []string{"input/output error"}},
	} {
		t.Run(c.errno.Error(), func(t *testing.T) {
			file, path := newFile(t)
			fail := func(name string, _ int, _ fs.FileMode) (*os.File, error) {
				return nil, &fs.PathError{Op: "open", Path: name, Err: c.errno}
			}
			file.SetOpen(fail)
			err := file.Save(t.Context(), numbered(1, 1))
			if c.mistake {
				wantStop(t, err, cdc.ClassConfig, append(c.parts, path)...)
			} else {
				wantPassing(t, err, append(c.parts, path)...)
			}
			file.SetOpen(os.OpenFile)
			testenv.Must(t, file.Save(t.Context(), numbered(1, 2)))
			file.SetOpen(fail)
			wantPassing(t, file.Save(t.Context(), numbered(1, 3)), c.parts...)
		})
	}
}

// A save that the disk may not have fails, and leaves the position that was saved: a file that is open to be read takes nothing, and a pipe cannot be synced.
func TestFileIsSynced(t *testing.T) {
	for _, open := range []func(name string) (*os.File, error){
		os.Open,
		func(string) (*os.File, error) {
			r, w, err := os.Pipe()
			t.Cleanup(func() { _ = r.Close() })
			return w, err
		},
	} {
		file, _ := newFile(t)
		testenv.Must(t, file.Save(t.Context(), numbered(1, 1)))
		file.SetOpen(func(name string, _ int, _ fs.FileMode) (*os.File, error) {
			testenv.Must(t, os.WriteFile(name, nil, 0o600))
			return open(name)
		})
		wantPassing(t, file.Save(t.Context(), numbered(1, 2)))
		if c, ok, err := file.Load(t.Context()); err != nil || !ok || c.Sequence != 1 {
			t.Errorf("after a save that failed: %+v, %t, %v", c, ok, err)
		}
	}
}

func TestFilePlaces(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	testenv.Must(t, os.WriteFile(plain, nil, 0o600))
	for path, parts := range map[string][]string{
		filepath.Join(dir, "missing", "checkpoint"): {"has no directory", "mount " + filepath.Join(dir, "missing")},
		dir:                                {"is not a file"},
		"/dev/zero":                        {"is not a file"},
		filepath.Join(plain, "checkpoint"): {"is not a file in a directory"},
	} {
		file := openFile(t, path)
		_, _, err := file.Load(t.Context())
		wantStop(t, err, cdc.ClassConfig, append(parts, path)...)
		if f := file.Check(t.Context()); len(f) != 1 || f[0].Severity != cdc.SeverityFail || f[0].Fix == "" {
			t.Errorf("%s: %+v", path, f)
		}
		testenv.Must(t, file.Close())
	}
}

func TestFileUnusable(t *testing.T) {
	file, path := newFile(t)
	testenv.Must(t, os.WriteFile(path, []byte(stored[:100]), 0o600))
	_, _, err := file.Load(t.Context())
	wantStop(t, err, cdc.ClassPosition, path, "unexpected end of JSON", "position reset")
	testenv.Must(t, os.WriteFile(path, []byte(strings.Replace(stored, `"version":1`, `"version":7`, 1)), 0o600))
	_, _, err = file.Load(t.Context())
	wantStop(t, err, cdc.ClassPosition, path, "form 7", "newer cdc-relay", "run the cdc-relay that wrote it")
}

func TestFileCheck(t *testing.T) {
	file, path := newFile(t)
	findings := file.Check(t.Context())
	if len(findings) != 1 || findings[0].Severity != cdc.SeverityOK {
		t.Errorf("%+v", findings)
	}
	testenv.Must(t, file.Save(t.Context(), example()))
	other := openFile(t, path)
	defer other.Close()
	findings = other.Check(t.Context())
	if len(findings) != 1 || findings[0].Severity != cdc.SeverityOK || !strings.Contains(findings[0].Text, `database "orders"`) {
		t.Errorf("beside a running relay: %+v", findings)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	testenv.Must(t, err)
	if len(entries) != 2 { // the checkpoint and its lock
		t.Errorf("the check left %v", entries)
	}
}

// saverPath turns this test program into a saver; see TestMain.
const saverPath = "CHECKPOINT_TEST_SAVER_PATH"

// saver saves until it is killed and prints each save.
func saver(path string) error {
	file := checkpoint.NewFile(path)
	c, _, err := file.Load(context.Background())
	if err != nil {
		return err
	}
	for c = numbered(c.Generation+1, 0); ; c.Sequence++ {
		if err := file.Save(context.Background(), c); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(os.Stdout, "saved %d %d\n", c.Generation, c.Sequence); err != nil {
			return err
		}
	}
}

// After each of many kills the last reported save is stored completely, and the lock is free.
func TestFileSurvivesKills(t *testing.T) {
	file, path := newFile(t)
	for kill := range 10 {
		generation, sequence := saveUntilKilled(t, path, 3+7*kill)
		c, found, err := file.Load(t.Context())
		if err != nil || !found {
			t.Fatalf("after kill %d: found %t, %v", kill, found, err)
		}
		// A save may have ended without its report.
		if c.Generation != generation || c.Sequence < sequence || c.Sequence > sequence+1 {
			t.Fatalf("after kill %d: reported (%d, %d), stored (%d, %d)", kill, generation, sequence, c.Generation, c.Sequence)
		}
	}
	testenv.Must(t, file.Save(t.Context(), numbered(100, 1)))
}

// saveUntilKilled runs a saver, kills it after a number of saves and returns the last one that it reported.
func saveUntilKilled(t *testing.T, path string, saves int) (generation, sequence uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), saverPath+"="+path)
	reports, err := child.StdoutPipe()
	testenv.Must(t, err)
	testenv.Must(t, child.Start())
	lines := bufio.NewScanner(reports)
	for lines.Scan() {
		if n, _ := fmt.Sscanf(lines.Text(), "saved %d %d", &generation, &sequence); n != 2 {
			t.Errorf("the saver says %q", lines.Text())
			break
		}
		if saves--; saves == 0 {
			testenv.Must(t, child.Process.Kill())
		}
	}
	_ = child.Wait() // killed
	if generation == 0 {
		t.Fatal("the saver saved nothing")
	}
	return generation, sequence
}
