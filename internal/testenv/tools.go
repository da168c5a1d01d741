package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// helm is the module of Helm at the version that tests run. Debian has no package of it.
const helm = "helm.sh/helm/v3/cmd/helm@v3.19.0"

// tools are the programs that Tool runs, with Debian's packages of them.
func tools() map[string]string {
	return map[string]string{
		"buildah": "buildah", "crun": "crun", "systemd-analyze": "systemd", "promtool": "prometheus", "prometheus": "prometheus", "helm": "",
		"chromium": "chromium",
	}
}

func toolNames() []string { return slices.Sorted(maps.Keys(tools())) }

// Tool returns a command that runs one of the tools.
func Tool(tb testing.TB, name string, args ...string) *exec.Cmd {
	tb.Helper()
	store, err := newStore(io.Discard)
	if err != nil {
		tb.Fatal(err)
	}
	prog, err := store.toolProgram(starting(tb), name)
	if err != nil {
		tb.Fatal(err)
	}
	c := prog.command(name, args...)
	cmd := exec.CommandContext(tb.Context(), c.path, c.args...)
	cmd.Env = append(cmd.Environ(), c.env...)
	return cmd
}

// toolProgram gets a tool from this machine, from Debian's packages or, for Helm, from its Go module.
func (s *store) toolProgram(ctx context.Context, name string) (*program, error) {
	pkg, known := tools()[name]
	if !known {
		return nil, fmt.Errorf("unknown tool %q: ask for %s", name, strings.Join(toolNames(), ", "))
	}
	if name == "helm" {
		return s.goProgram(ctx, helm)
	}
	if path, err := exec.LookPath(name); err == nil {
		return &program{bin: filepath.Dir(path)}, nil
	}
	if name == "chromium" { // its files have fixed places
		if err := installDebian(ctx, pkg); err != nil {
			return nil, missing("chromium is missing: install it (on Debian `sudo apt-get install chromium`)", err)
		}
		return &program{bin: "/usr/bin"}, nil
	}
	found, err := s.debianProgram(ctx, pkg, "usr/bin", name)
	if err != nil {
		return nil, fmt.Errorf("%s is missing and could not be fetched: install package %s: %w", name, pkg, err)
	}
	return found, nil
}

// goProgram builds a program of a Go module, "path@version".
func (s *store) goProgram(ctx context.Context, module string) (*program, error) {
	path, version, _ := strings.Cut(module, "@")
	dir, err := s.entry(ctx, filepath.Base(path)+"-"+version, func(dir string) error {
		s.say("building %s", module)
		_, err := run(ctx, dir, "env", "GOBIN="+dir, "GOFLAGS=", "CGO_ENABLED=0", "go", "install", module)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &program{bin: dir}, nil
}

// NPMFile returns the text of a file of an npm package, "name@version".
func NPMFile(tb testing.TB, pkg, path string) string {
	tb.Helper()
	s, err := newStore(io.Discard)
	if err != nil {
		tb.Fatal(err)
	}
	ctx := starting(tb)
	dir, err := s.entry(ctx, strings.ReplaceAll(pkg, "@", "-"), func(dir string) error {
		return errors.Join(needNPM(ctx), unpackNPM(ctx, dir, pkg))
	})
	if err != nil {
		tb.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "package", path))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
