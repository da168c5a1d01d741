package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// part is one call of `go test`.
type part struct{ flags, packages []string }

// suite runs parts one after another.
type suite struct {
	dir    string // of this run
	out    io.Writer
	reruns int // of a test that fails
}

// run prints what failed and what is flaky, and returns an error unless the run passed.
func (s *suite) run(ctx context.Context, parts []part) error {
	all := newResults()
	found, err := s.results(ctx, parts, all)
	if err != nil {
		return err
	}
	text, failure := verdict(all, found)
	_, err = io.WriteString(s.out, text)
	return errors.Join(failure, err)
}

// results runs the parts, also those behind one that fails, and adds to all.
func (s *suite) results(ctx context.Context, parts []part, all *results) ([]cdctest.Found, error) {
	violations := filepath.Join(s.dir, "violations.jsonl")
	for i, p := range parts {
		events := filepath.Join(s.dir, fmt.Sprintf("events-%d.jsonl", i))
		err := s.gotestsum(ctx, p, events, violations)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		file, openErr := os.Open(events)
		if openErr != nil {
			return nil, errors.Join(err, openErr)
		}
		if err := errors.Join(all.read(file), file.Close()); err != nil {
			return nil, err
		}
		if err != nil && all.passed() {
			all.outside = append(all.outside, fmt.Sprintf("gotestsum: %v", err))
		}
	}
	return readViolations(violations)
}

func (s *suite) gotestsum(ctx context.Context, p part, events, violations string) error {
	args := []string{"tool", "gotestsum", "--format=pkgname-and-test-fails", "--hide-summary=skipped,failed,output", "--jsonfile=" + events}
	if s.reruns > 0 {
		// A rerun of a subtest alone would hide a failure of the test around it.
		args = append(args, "--rerun-fails="+strconv.Itoa(s.reruns), "--rerun-fails-run-root-test", "--rerun-fails-abort-on-data-race")
	}
	args = append(args, "--packages="+strings.Join(p.packages, " "), "--", "-count=1", "-vet=off")
	cmd := exec.CommandContext(ctx, "go", append(args, p.flags...)...)
	// The go command leaves it to the terminal to interrupt what it runs: interrupt all of the group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.Env = append(os.Environ(), cdctest.EnvViolations+"="+violations)
	cmd.Stdout, cmd.Stderr = s.out, s.out
	return cmd.Run()
}

func readViolations(path string) ([]cdctest.Found, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []cdctest.Found
	for line := range bytes.Lines(text) {
		var f cdctest.Found
		if err := json.Unmarshal(line, &f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, f)
	}
	return all, nil
}

// verdict lists what failed, what is flaky and the violations, and returns an error unless the run passed.
func verdict(all *results, found []cdctest.Found) (string, error) {
	count := map[outcome]int{}
	var text strings.Builder
	var list []string
	for _, t := range all.sorted() {
		o := t.outcome()
		count[o]++
		if o == passed {
			continue
		}
		name := strings.ToUpper(string(o)) + " " + t.name
		fmt.Fprintf(&text, "\n%s, %d of %d runs failed:\n%s", name, t.failures, t.runs, t.output)
		list = append(list, name)
	}
	for _, what := range all.outside {
		list = append(list, "FAILED outside a test: "+what)
	}
	for _, what := range all.final {
		list = append(list, "FAILED, and a rerun does not count: "+what)
	}
	for _, f := range found {
		list = append(list, fmt.Sprintf("VIOLATION in %s: %s: %s", f.Test, f.Kind, f.Text))
	}
	fmt.Fprintf(&text, "\n%s\n%d passed, %d failed, %d of those that passed are flaky\n",
		strings.Join(list, "\n"), count[passed]+count[flakyTest], count[failed], count[flakyTest])
	switch {
	case len(found) > 0:
		return text.String(), fmt.Errorf("the tests found %d violations", len(found))
	case count[failed] > 0 || len(all.outside) > 0 || len(all.final) > 0:
		return text.String(), errors.New("the tests failed")
	}
	return text.String(), nil
}
