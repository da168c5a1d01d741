package postgres

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSynchronousStandbyNamesThatMatchTheRelay(t *testing.T) {
	for setting, want := range map[string]bool{
		"": false, "*": true, `"*"`: true, "a, b": false, "a,*": true, "2 (a, *)": true, "ANY 1 (*)": true, "FIRST 1 (s1,s2)": false,
		`"cdc-relay"`: true, `a, "CDC-Relay"`: true, `ANY 2 (a, "cdc-relay", b)`: true, `"a ""cdc-relay"" b"`: true, `"a, cdc-relay"`: false,
		"cdc_relay": false, " *": true, `first 1("a","b")`: false, `"unclosed`: false,
	} {
		assert.Equal(t, want, namesRelay(setting), "%q", setting)
	}
}
