package testenv

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	errNoApt     = errors.New("this system has no apt-get")
	errNoNPM     = errors.New("install npm, with which it is fetched (on Debian `sudo apt-get install npm`)")
	errPlainUser = errors.New("only root may install it")
)

// missing returns an error that says what to install, and why it was not installed if that is worth knowing.
func missing(sentence string, err error) error {
	if errors.Is(err, errPlainUser) || errors.Is(err, errNoApt) {
		return errors.New(sentence)
	}
	return fmt.Errorf("%s: %w", sentence, err)
}

// program is a directory of binaries and how to run them.
type program struct {
	bin    string
	env    []string
	loader []string // the dynamic loader and its arguments, if the binaries need another than the system's
}

func (p *program) command(name string, args ...string) command {
	binary := filepath.Join(p.bin, name)
	if len(p.loader) == 0 {
		return command{path: binary, args: args, env: p.env}
	}
	return command{path: p.loader[0], args: slices.Concat(p.loader[1:], []string{binary}, args), env: p.env}
}

// unpacked returns a program in a tree of unpacked Debian packages.
func unpacked(root, bin string) (*program, error) {
	var libs []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "lib/*-linux-gnu*", "usr/lib/*-linux-gnu*/*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		libs = append(libs, found...)
	}
	return &program{bin: filepath.Join(root, bin), env: []string{"LD_LIBRARY_PATH=" + strings.Join(libs, ":")}}, nil
}

// major runs a binary with --version and returns the first number that it prints; 0 if it does not run, for example if the
// cache was filled on another system.
func (p *program) major(ctx context.Context, name string) int {
	number, err := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(p.version(ctx, name)))
	if err != nil {
		return 0
	}
	return number
}

// version returns what a binary prints with --version, without its own path; "" if it does not run.
func (p *program) version(ctx context.Context, name string) string {
	c := p.command(name, "--version")
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Env = append(cmd.Environ(), c.env...)
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(out), filepath.Join(p.bin, name), "")
}

// beside returns an installed program of the major version: on PATH, or in a directory that matches a pattern. It returns
// nil if there is none.
func beside(ctx context.Context, name string, major int, patterns ...string) *program {
	var dirs []string
	if path, err := exec.LookPath(name); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err == nil {
			dirs = append(dirs, found...)
		}
	}
	for _, dir := range dirs {
		if p := (&program{bin: dir}); p.major(ctx, name) == major {
			return p
		}
	}
	return nil
}
