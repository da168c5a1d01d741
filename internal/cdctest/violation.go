package cdctest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
)

// EnvViolations names the file to which tests append the violations that they find. `make test` fails if there is one,
// whatever a rerun of its test says: a test may be late on a busy machine, but no machine loses an event.
const EnvViolations = "CDC_RELAY_VIOLATIONS"

// Found is a line of that file.
type Found struct {
	Test string `json:"test"`
	Kind Kind   `json:"kind"`
	Text string `json:"text"`
}

// Violation fails the test, and the run that the test is part of. Call it only for what a slow machine cannot cause.
func Violation(tb testing.TB, kind Kind, format string, args ...any) {
	tb.Helper()
	f := Found{Test: tb.Name(), Kind: kind, Text: fmt.Sprintf(format, args...)}
	tb.Errorf("%s: %s", f.Kind, f.Text)
	if err := f.write(); err != nil {
		tb.Errorf("note the violation: %v", err)
	}
}

// Violation is the function of that name, for helpers that have the rig only.
func (r *Rig) Violation(kind Kind, format string, args ...any) {
	r.tb.Helper()
	Violation(r.tb, kind, format, args...)
}

// Difference is the kind of violation by which got differs from want. Call it only once got has as many events as want: what
// is missing then was lost, or stands behind what should not be there.
func Difference[T comparable](got, want []T) Kind {
	left := map[T]int{}
	for _, w := range want {
		left[w]++
	}
	kind := Order
	for _, g := range got {
		n, wanted := left[g]
		switch {
		case !wanted:
			return Phantom
		case n == 0:
			kind = Duplicates
		}
		left[g]--
	}
	return kind
}

func (f Found) write() error {
	path := os.Getenv(EnvViolations)
	if path == "" {
		return nil
	}
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n')) // one write, so that lines of parallel tests do not mix
	return errors.Join(err, file.Close())
}
