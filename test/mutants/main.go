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
	if err := runAll(*pattern, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runAll prints a line for each mutant, and fails if one survives.
func runAll(pattern string, verbose bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	fmt.Println("| mutant | caught by | seconds |\n|---|---|---|")
	var survivors []error
	for _, m := range mutants() {
		if !matches.MatchString(m.name) {
			continue
		}
		began := time.Now()
		test, err := m.try(ctx, root, verbose)
		if errors.Is(err, errSurvived) {
			test = "**nothing**"
			survivors = append(survivors, fmt.Errorf("%w: %s", err, m.name))
		} else if err != nil {
			return fmt.Errorf("mutant %q: %w", m.name, err)
		}
		fmt.Printf("| %s | %s | %.0f |\n", m.name, test, time.Since(began).Seconds())
	}
	return errors.Join(survivors...)
}

var errSurvived = errors.New("no test caught the mutant")

var failedTest = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)

// try builds the mutant, runs its tests and returns the first one that failed.
func (m *mutant) try(ctx context.Context, root string, verbose bool) (string, error) {
	dir, err := os.MkdirTemp("", "cdc-relay-mutant-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "cdc-relay")
	if m.binary() {
		build := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", binary, "./cmd/cdc-relay")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	out, err := m.test(ctx, overlay, binary)
	if verbose {
		fmt.Println(string(out))
	}
	if err == nil {
		return "", errSurvived
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	failed := failedTest.FindSubmatch(out)
	if failed == nil {
		return "", fmt.Errorf("the tests did not run: %w\n%s", err, out)
	}
	return string(failed[1]), nil
}

// test runs the tests against the binary, or with the mutant linked into them.
func (m *mutant) test(ctx context.Context, overlay, binary string) ([]byte, error) {
	args := []string{"test", "-count=1", "-failfast", "-timeout", "5m", "-run", m.run}
	if !m.binary() {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, m.pkg)...)
	cmd.Env = append(os.Environ(), "CDC_RELAY_BIN="+binary)
	if m.database != "" {
		cmd.Env = append(cmd.Env, "CDC_RELAY_SOURCES="+m.database)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), err
}
