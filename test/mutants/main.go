package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	pattern := flag.String("run", "", "run only mutants whose names match this regular expression")
	verbose := flag.Bool("v", false, "print what the tests print")
	flag.Parse()
	if err := run(*pattern, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(pattern string, verbose bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "cdc-relay-mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return (&laboratory{ctx: ctx, root: root, dir: dir, verbose: verbose}).all(pattern)
}

// laboratory builds and tests mutants.
type laboratory struct {
	ctx       context.Context //nolint:containedctx // of the whole run
	root, dir string
	verbose   bool
}

// all prints a line for each mutant, and fails if one survives or cannot be tried.
func (l *laboratory) all(pattern string) error {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	fmt.Println("| mutant | caught by | seconds |\n|---|---|---|")
	var failed []error
	for _, m := range mutants() {
		if !matches.MatchString(m.name) {
			continue
		}
		began := time.Now()
		test, err := l.try(&m)
		switch {
		case l.ctx.Err() != nil:
			return l.ctx.Err()
		case err != nil:
			test = "**nothing**"
			failed = append(failed, fmt.Errorf("mutant %q: %w", m.name, err))
		}
		fmt.Printf("| %s | %s | %.0f |\n", m.name, test, time.Since(began).Seconds())
	}
	return errors.Join(failed...)
}

var errSurvived = errors.New("no test caught the mutant")

// failedTest is a test that failed, or that still ran when the time was up: a mutant may make it wait for ever.
var failedTest = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)|^panic: test timed out after \S+\s+running tests:\s+(\S+)`)

// try builds the mutant, runs its tests and returns the first one that failed.
func (l *laboratory) try(m *mutant) (string, error) {
	overlay, err := m.overlay(l.root, l.dir)
	if err != nil {
		return "", err
	}
	run := l.linked
	if m.binary() {
		run = l.shipped
	}
	out, err := run(m, overlay)
	if l.verbose {
		fmt.Println(string(out))
	}
	failed := failedTest.FindSubmatch(out)
	switch {
	case l.ctx.Err() != nil:
		return "", l.ctx.Err()
	case err == nil:
		return "", errSurvived
	case failed == nil:
		return "", fmt.Errorf("the tests did not run: %w\n%s", err, out)
	}
	return string(failed[1]) + string(failed[2]), nil
}

// linked runs tests with the mutant linked into them.
func (l *laboratory) linked(m *mutant, overlay string) ([]byte, error) {
	return l.command(l.root, nil, "go", "test", "-overlay", overlay, "-count=1", "-failfast", "-timeout", "5m", "-run", m.run, m.pkg)
}

// shipped runs tests of the built binary against the mutant.
func (l *laboratory) shipped(m *mutant, overlay string) ([]byte, error) {
	suite := filepath.Join(l.dir, filepath.Base(m.pkg)+".test")
	if _, err := os.Stat(suite); err != nil {
		if out, err := l.command(l.root, nil, "go", "test", "-c", "-o", suite, m.pkg); err != nil {
			return out, err
		}
	}
	binary := filepath.Join(l.dir, "cdc-relay")
	if out, err := l.command(l.root, []string{"CGO_ENABLED=0"}, "go", "build", "-overlay", overlay, "-o", binary, "./cmd/cdc-relay"); err != nil {
		return out, err
	}
	env := []string{"CDC_RELAY_BIN=" + binary}
	if m.database != "" {
		env = append(env, "CDC_RELAY_SOURCES="+m.database)
	}
	return l.command(filepath.Join(l.root, m.pkg), env, suite, "-test.failfast", "-test.timeout", "5m", "-test.run", m.run)
}

func (l *laboratory) command(dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(l.ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), err
}
