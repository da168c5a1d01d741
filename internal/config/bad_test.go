package config_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// good is the smallest file that loads, for bad ones to add to: GOOD in testdata/bad.txt.
const good = `source: {postgres: {dsn: "postgres://relay:s3cret@db/orders"}}
kafka: {brokers: ["k1:9092"]}
`

// badFile is a file with what is said about it, word for word.
type badFile struct {
	name, file, want string
	// schemaTakes marks what a JSON schema cannot see: settings that contradict each other, values that
	// references stand for, and YAML's own tags.
	schemaTakes bool
}

// badFiles reads testdata/bad.txt: blocks of "### name", the file, ">>>" and the problems.
func badFiles(tb testing.TB) []badFile {
	tb.Helper()
	text, err := os.ReadFile("testdata/bad.txt")
	testenv.Must(tb, err)
	var files []badFile
	for _, block := range strings.Split("\n\n"+string(text), "\n\n### ")[1:] {
		name, rest, _ := strings.Cut(block, "\n")
		file, want, ok := strings.Cut("\n"+rest, "\n>>>\n")
		if !ok {
			tb.Fatalf("%s: no >>>", name)
		}
		f := badFile{want: strings.TrimRight(want, "\n")}
		f.name, f.schemaTakes = strings.CutSuffix(name, " (the schema takes it)")
		if file != "" {
			f.file = strings.Replace(file[1:]+"\n", "GOOD\n", good, 1)
		}
		files = append(files, f)
	}
	return files
}

func TestBad(t *testing.T) {
	schema := compileSchema(t)
	vars := environment(map[string]string{"EMPTY": "", "WORD": "w0rd", "PASSWORD": "s3cret"})
	for _, b := range badFiles(t) {
		t.Run(b.name, func(t *testing.T) {
			c, err := config.Parse("x.yaml", []byte(b.file), vars)
			if err == nil || c != nil {
				t.Fatalf("loads: %+v", c)
			}
			if err.Error() != b.want {
				t.Errorf("\nhave %s\nwant %s", err, b.want)
			}
			var stop *cdc.StopError
			if !errors.As(err, &stop) || stop.Class != cdc.ClassConfig || stop.Reason != "config" {
				t.Errorf("class of %#v", err)
			}
			if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "w0rd") {
				t.Error("a value leaked")
			}
			if takes := againstSchema(t, schema, b.file) == nil; takes != b.schemaTakes {
				t.Errorf("the schema takes it: %t", takes)
			}
		})
	}
}
