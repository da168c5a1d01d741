package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// flaky runs the parts again and again while all cores are busy, and prints a table.
func flaky(ctx context.Context, dir string, out io.Writer, parts []part, o options) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for range runtime.NumCPU() {
		go func() {
			for ctx.Err() == nil { //nolint:revive // it is meant to keep a core busy
			}
		}()
	}
	all := newResults()
	var found []cdctest.Found
	for i := range o.runs {
		began := time.Now()
		s := &suite{dir: filepath.Join(dir, fmt.Sprint(i)), out: out}
		if err := os.Mkdir(s.dir, 0o700); err != nil {
			return err
		}
		violations, err := s.results(ctx, parts, all)
		if err != nil {
			return err
		}
		found = append(found, violations...)
		if _, err := fmt.Fprintf(out, "run %d of %d took %s\n", i+1, o.runs, time.Since(began).Round(time.Second)); err != nil {
			return err
		}
	}
	text, failure := verdict(all, found)
	if failure == nil && len(all.sorted()) == 0 {
		return errors.New("no test has such a name")
	}
	if _, err := io.WriteString(out, text+table(all, o.all)); err != nil {
		return err
	}
	if failure == nil && slices.ContainsFunc(all.sorted(), func(t *test) bool { return t.failures > 0 }) {
		return errors.New("some tests are flaky")
	}
	return failure
}

// mostListed is how many of the tests that passed are in the table of a run of all.
const mostListed = 15

// table lists the tests, those that failed most and took longest first.
func table(all *results, whole bool) string {
	list := all.sorted()
	slices.SortStableFunc(list, func(a, b *test) int {
		return cmp.Or(cmp.Compare(b.failures, a.failures), cmp.Compare(b.slowest, a.slowest))
	})
	var text strings.Builder
	text.WriteString("\n| test | runs | failed | slowest |\n|---|---|---|---|\n")
	listed := 0
	for _, t := range list {
		if whole && t.failures == 0 {
			if listed++; listed > mostListed {
				break
			}
		}
		fmt.Fprintf(&text, "| %s | %d | %d | %s |\n", t.name, t.runs, t.failures, t.slowest.Round(10*time.Millisecond))
	}
	return text.String()
}
