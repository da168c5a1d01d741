package config_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// FuzzParse holds that no file brings the reader down, that every error is one of the configuration,
// tells nothing of what a reference stands for, and that what is accepted can be shown and read back.
func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	for _, b := range badFiles(f) {
		f.Add([]byte(b.file))
	}
	if text, err := os.ReadFile("../../deploy/cdc-relay.yaml"); err == nil {
		f.Add(text)
		f.Add(bytes.ReplaceAll(text, []byte("#"), nil))
	}
	const secret = "7f3c1d9e-hunter2"
	env := func(string) (string, bool) { return secret, true }
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.Parse("x.yaml", text, env)
		if err != nil {
			var stop *cdc.StopError
			if c != nil || !errors.As(err, &stop) || stop.Class != cdc.ClassConfig {
				t.Errorf("%+v %#v", c, err)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("leaked: %s", err)
			}
			return
		}
		var shown, again bytes.Buffer
		testenv.Must(t, c.Show(&shown))
		escaped := strings.NewReplacer("${env:", "$${env:", "${file:", "$${file:").Replace(shown.String())
		c, err = config.Parse("x.yaml", []byte(escaped), env)
		if err != nil {
			t.Fatalf("what is shown does not load: %v\n%s", err, escaped)
		}
		if err := c.Show(&again); err != nil || shown.String() != again.String() {
			t.Errorf("have %s\nwant %s", again.String(), shown.String())
		}
	})
}
