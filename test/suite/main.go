package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

func main() {
	var o options
	flag.BoolVar(&o.race, "race", false, "run the tests of units with the race detector")
	flag.IntVar(&o.runs, "runs", 0, "run this often while all cores are busy, without reruns, and print a table")
	flag.BoolVar(&o.all, "all", false, "with -runs: every test")
	flag.StringVar(&o.pattern, "run", "", "with -runs, without -all: the tests that match this pattern, of the packages that are named")
	flag.Parse()
	o.packages = flag.Args()
	if err := run(o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	race, all bool
	runs      int
	pattern   string
	packages  []string
}

func run(o options, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "cdc-relay-suite-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	parts, err := chosen(o)
	if err != nil {
		return err
	}
	if o.runs == 0 {
		return (&suite{dir: dir, out: out, reruns: 2}).run(ctx, parts)
	}
	return flaky(ctx, dir, out, parts, o)
}

// chosen is what to run: all tests, or those that are named.
func chosen(o options) ([]part, error) {
	if o.all || o.runs == 0 {
		return everything(o)
	}
	if o.pattern == "" || len(o.packages) == 0 {
		return nil, errors.New("name tests and their packages, such as `make flaky RUN='^TestKeyOfRoute$' PKG=./internal/router`, or all of them with ALL=1")
	}
	p := part{flags: []string{"-p=3", "-parallel=5", "-timeout=75m", "-run=" + o.pattern}, packages: o.packages}
	if o.race && !slices.ContainsFunc(o.packages, func(name string) bool { return strings.HasPrefix(name, "./test/") }) {
		p.flags = append(p.flags, "-race")
	}
	return []part{p}, nil
}

// everything is all tests. The first part needs no built relay. More packages than cores run at a time: they wait for their
// servers more than they compute. The package that takes longest begins first.
func everything(o options) ([]part, error) {
	stretched := func(d time.Duration) string { return "-timeout=" + cdctest.Patience(d).String() }
	limits := []string{stretched(15 * time.Minute), stretched(40 * time.Minute)}
	if o.runs > 0 { // all cores are busy
		limits = []string{"-timeout=30m", "-timeout=75m"}
	}
	units := part{flags: []string{"-p=2", limits[0]}}
	if o.race {
		units.flags = append(units.flags, "-race")
	}
	for _, pattern := range []string{"go.mod", "*/go.mod", "*/*/go.mod"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if module := filepath.Dir(file); module != "test" {
				units.packages = append(units.packages, "./"+filepath.Join(module, "..."))
			}
		}
	}
	if len(units.packages) == 0 {
		return nil, errors.New("no module is here: run this in the root of the repository")
	}
	return []part{units, {flags: []string{"-p=3", "-parallel=5", limits[1]}, packages: []string{"./test/faults", "./test/..."}}}, nil
}
