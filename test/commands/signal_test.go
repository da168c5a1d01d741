package commands

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// SIGTERM while the process is being initialized, before main is called, is as orderly as later: exit code 0. Go's runtime prints what it
// has initialized, so the signal comes right after the package that receives it, and each start gets it a little later.
func TestSigtermDuringInitialization(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := "source:\n  postgres: {dsn: postgres://a@127.0.0.1:1/b}\nkafka: {brokers: [\"127.0.0.1:1\"]}\nroutes: [{topic: a}]\nhttp: {listen: \"\"}\n"
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "cdc-relay.yaml"), []byte(config), 0o644))
	for late := range 40 {
		cmd := exec.CommandContext(t.Context(), binary, "run")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GODEBUG=inittrace=1")
		stderr, err := cmd.StderrPipe()
		testenv.Must(t, err)
		testenv.Must(t, cmd.Start())
		lines, before, after := bufio.NewScanner(stderr), "", -1
		for after < 4*late && lines.Scan() {
			name, initialized := strings.CutPrefix(lines.Text(), "init ")
			name, _, _ = strings.Cut(name, " ")
			switch {
			case !initialized: // all is
				after = max(4*late, after)
			case after >= 0:
				after++
			case strings.HasSuffix(name, "/internal/interrupt"):
				after = 0
			default:
				before = name
			}
		}
		if before != "os/signal" {
			t.Fatalf("signals are received once %s is initialized, want os/signal", before)
		}
		testenv.Must(t, cmd.Process.Signal(syscall.SIGTERM))
		rest, _ := io.ReadAll(stderr)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("SIGTERM %d packages later: %v\n%s", 4*late, err, rest)
		}
	}
}
