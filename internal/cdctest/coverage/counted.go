package coverage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// EnvFile names the file to which tests append what they counted.
const EnvFile = "CDC_RELAY_COVERAGE"

// Counted is one check of a test that passed.
type Counted struct {
	Test     string `json:"test"`
	Database string `json:"database"`
	Delivery string `json:"delivery"`
	// Kind is what was counted, Text its result.
	Kind string `json:"kind"`
	Text string `json:"text,omitempty"`
}

// Append adds c to the file, if there is one.
func (c Counted) Append() error {
	path := os.Getenv(EnvFile)
	if path == "" {
		return nil
	}
	c.Test, _, _ = strings.Cut(c.Test, "/")
	line, err := json.Marshal(c)
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

// Read returns the lines of a file; none if it does not exist.
func Read(path string) ([]Counted, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Counted
	for line := range bytes.Lines(text) {
		var c Counted
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// Unproven lists what tests declare and did not count.
func Unproven(declared []Declaration, counted []Counted) []string {
	var missing []string
	for i := range declared {
		d := &declared[i]
		for _, database := range d.Databases {
			for _, mode := range d.Modes {
				for _, kind := range d.Counts {
					want := Counted{Test: d.Test, Database: database, Delivery: mode, Kind: kind}
					if !slices.ContainsFunc(counted, func(c Counted) bool { c.Text = ""; return c == want }) {
						missing = append(missing, fmt.Sprintf("%s declares that it counts %s on %s, %s, and did not", d.Test, kind, database, mode))
					}
				}
			}
		}
	}
	return missing
}
