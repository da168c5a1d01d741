package config_test

import (
	"strings"
	"testing"
)

// The example of docs/configuration.md loads.
func TestIntroductionLoads(t *testing.T) {
	_, text, _ := strings.Cut(example(t, "testdata/introduction.md"), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	text = uncommented(t, text)
	mustParse(t, text, nil)
	valid(t, compileSchema(t), text)
}
