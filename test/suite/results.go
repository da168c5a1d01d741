package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// outcome is what became of a test.
type outcome string

const (
	passed    outcome = "passed"
	flakyTest outcome = "flaky" // failed, and passed when it was run again
	failed    outcome = "failed"
)

// results are those of tests at the top level, by name. A subtest counts with its test.
type results struct {
	tests map[string]*test
	// outside are failures of packages without a failed test. final are failures that no rerun excuses.
	outside, final []string
}

type test struct {
	name           string // import path and name
	runs, failures int
	last           bool   // the last run passed
	output         string // of the first run that failed
	slowest        time.Duration

	printed strings.Builder // of the current run
}

func (t *test) outcome() outcome {
	switch {
	case t.failures == 0:
		return passed
	case t.last:
		return flakyTest
	}
	return failed
}

func newResults() *results { return &results{tests: map[string]*test{}} }

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64 // seconds
}

// read adds the events of one call of `go test`, and of the reruns that follow in the same file.
func (r *results) read(from io.Reader) error {
	failures := map[string]int{} // of tests, by package
	output := map[string]string{}
	running := map[string][]string{} // tests that have begun and not ended, by package
	decoder := json.NewDecoder(bufio.NewReader(from))
	for {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the events of tests: %w", err)
		}
		r.note(&e)
		switch {
		case e.Test != "":
			switch e.Action {
			case "run":
				running[e.Package] = append(running[e.Package], e.Test)
			case "pass", "fail", "skip":
				running[e.Package] = slices.DeleteFunc(running[e.Package], func(name string) bool { return name == e.Test })
			}
			if r.test(&e) {
				failures[e.Package]++
			}
		case e.Action == "output":
			output[e.Package] += e.Output
		case e.Action == "build-output":
			output[e.ImportPath] += e.Output
		case e.Action == "fail":
			if left := running[e.Package]; len(left) > 0 { // its limit, or a panic
				r.outside = append(r.outside, e.Package+" ended before "+strings.Join(left, ", ")+"\n"+output[e.Package])
			} else if failures[e.Package] == 0 {
				r.outside = append(r.outside, e.Package+"\n"+output[e.Package])
			}
			fallthrough
		case e.Action == "pass":
			failures[e.Package], output[e.Package] = 0, ""
			delete(running, e.Package)
		case e.Action == "build-fail":
			r.outside = append(r.outside, e.ImportPath+" does not build\n"+output[e.ImportPath])
		}
	}
}

// test adds an event of a test, and returns whether it is the failure of a whole test.
func (r *results) test(e *event) bool {
	name, _, sub := strings.Cut(e.Test, "/")
	name = e.Package + "." + name
	t := r.tests[name]
	if t == nil {
		t = &test{name: name}
		r.tests[name] = t
	}
	if e.Action == "output" {
		t.printed.WriteString(e.Output)
	}
	if sub || e.Action != "pass" && e.Action != "fail" {
		return false
	}
	t.runs++
	t.last = e.Action == "pass"
	t.slowest = max(t.slowest, time.Duration(e.Elapsed*float64(time.Second)))
	if !t.last {
		if t.failures++; t.failures == 1 {
			t.output = t.printed.String()
		}
	}
	t.printed.Reset()
	return !t.last
}

// note looks for what no rerun excuses.
func (r *results) note(e *event) {
	for _, sign := range []string{"WARNING: DATA RACE", "[rapid] failed", "[rapid] panic", "Failing input written to"} {
		if e.Action == "output" && strings.Contains(e.Output, sign) {
			r.final = append(r.final, fmt.Sprintf("%s.%s: %s", e.Package, e.Test, strings.TrimSpace(e.Output)))
		}
	}
}

// passed reports whether nothing failed, apart from violations.
func (r *results) passed() bool {
	for _, t := range r.tests {
		if t.outcome() == failed {
			return false
		}
	}
	return len(r.outside) == 0 && len(r.final) == 0
}

func (r *results) sorted() []*test {
	all := make([]*test, 0, len(r.tests))
	for _, t := range r.tests {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *test) int { return strings.Compare(a.name, b.name) })
	return all
}
