package cdctest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// envBinary is the path of the relay's binary; if it is not set, Binary builds one.
const envBinary = "CDC_RELAY_BIN"

// Binary returns the path of the relay's binary: the one that envBinary names, or one that it builds in dir without the
// race detector.
func Binary(ctx context.Context, dir string) (string, error) {
	if path := os.Getenv(envBinary); path != "" {
		return path, nil
	}
	path := filepath.Join(dir, "cdc-relay")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/cdc-relay/cdc-relay/cmd/cdc-relay")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build cdc-relay: %w\n%s", err, out)
	}
	return path, nil
}
