// Package deploy verifies what users install: the image, packages, units, the compose file and the Helm chart.
package deploy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	testenv.Must(t, err)
	return string(text)
}

// write creates a file that everyone may read, and its directory.
func write(t *testing.T, path, text string) {
	t.Helper()
	testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testenv.Must(t, os.WriteFile(path, []byte(text), 0o644))
}

// output runs a command, which must succeed, and returns its standard output.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, &stdout, &stderr)
	}
	return stdout.String()
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(output(t, exec.CommandContext(t.Context(), "go", "env", name)))
}

// relayBinary returns the path of the built relay.
func relayBinary(t *testing.T) string {
	t.Helper()
	path, err := cdctest.Binary(t.Context(), t.TempDir())
	testenv.Must(t, err)
	return path
}

// needsRoot fails a test that mounts file systems and runs programs as users without a name.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("run this test as root: it mounts file systems and runs programs as other users")
	}
}

// decode reads YAML or JSON.
func decode(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
