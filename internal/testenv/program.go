package testenv

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
)

var (
	errNoApt     = errors.New("this is not Debian or a relative of it")
	errNoNPM     = errors.New("install npm, with which it is fetched (on Debian `sudo apt-get install npm`)")
	errPlainUser = errors.New("only root may install it by itself")
)

// missing is the sentence that says what to install, with the reason why it was not done if there is one.
func missing(sentence string, err error) error {
	if errors.Is(err, errPlainUser) || errors.Is(err, errNoApt) {
		return errors.New(sentence)
	}
	return fmt.Errorf("%s: %w", sentence, err)
}

// program is a folder of binaries and where their shared libraries are.
type program struct {
	bin string
	env []string
}

func (p *program) command(name string, args ...string) command {
	return command{path: filepath.Join(p.bin, name), args: args, env: p.env}
}

// unpacked is a program in a tree of unpacked Debian packages.
func unpacked(root, bin string) (*program, error) {
	var libs []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "lib/*-linux-gnu*", "usr/lib/*-linux-gnu*/*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		libs = append(libs, found...)
	}
	return &program{bin: filepath.Join(root, bin), env: []string{"LD_LIBRARY_PATH=" + joinList(libs)}}, nil
}

func joinList(dirs []string) string {
	list := ""
	for _, dir := range dirs {
		if list != "" {
			list += string(filepath.ListSeparator)
		}
		list += dir
	}
	return list
}

// major runs a binary with --version and returns the first number it prints, 0 if it does not run: that is
// how a cache made on another system shows.
func (p *program) major(ctx context.Context, name string) int {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, name), "--version")
	cmd.Env = append(cmd.Environ(), p.env...)
	out, err := cmd.Output()
	if err != nil {
		return 0
	}
	number, err := strconv.Atoi(string(regexp.MustCompile(`\d+`).Find(out)))
	if err != nil {
		return 0
	}
	return number
}

// beside returns the program whose binary name is found on PATH or in one of the folders (patterns), in
// the wanted major version; nil if there is none.
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

// onMac says how to get something on macOS, where nothing is fetched.
func onMac() bool { return runtime.GOOS == "darwin" }
