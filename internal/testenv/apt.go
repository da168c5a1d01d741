package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// unpackDebian unpacks Debian packages and the libraries that this machine lacks into dir. It installs nothing, so it
// works without root and starts no server.
func (s *store) unpackDebian(ctx context.Context, dir string, packages ...string) error {
	apt, err := s.apt()
	if err != nil {
		return err
	}
	return s.unpackFrom(ctx, apt, dir, packages...)
}

func (s *store) unpackFrom(ctx context.Context, apt *aptClient, dir string, packages ...string) error {
	unlock, err := lockFile(ctx, filepath.Join(s.dir, "apt.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if err := apt.update(ctx); err != nil {
		return err
	}
	plan, err := run(ctx, "", apt.command(append([]string{"-s", "--no-install-recommends", "install"}, packages...)...)...)
	if err != nil {
		return err
	}
	s.say("fetching %s from Debian's packages", packages[0])
	return unpackAll(ctx, apt, dir, debianClosure(plan, packages))
}

// debianClosure returns the packages of a simulated install that a server needs at run time.
func debianClosure(plan string, packages []string) []string {
	wanted := slices.Clone(packages)
	for line := range strings.Lines(plan) {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == "Inst" && loadable(fields[1]) && !slices.Contains(wanted, fields[1]) {
			wanted = append(wanted, fields[1])
		}
	}
	return wanted
}

// loadable reports whether a package holds shared libraries. It excludes LLVM for PostgreSQL's JIT, which tests turn
// off and which is larger than everything else together.
func loadable(name string) bool {
	return strings.HasPrefix(name, "lib") &&
		!strings.HasPrefix(name, "libllvm") && !strings.HasPrefix(name, "libz3") &&
		!strings.HasPrefix(name, "libperl") && !strings.HasSuffix(name, "-perl")
}

func unpackAll(ctx context.Context, apt *aptClient, dir string, packages []string) error {
	debs := filepath.Join(dir, "debs")
	if err := os.Mkdir(debs, 0o755); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(debs) }()
	if _, err := run(ctx, debs, apt.command(append([]string{"-q", "download"}, packages...)...)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err := run(ctx, "", "dpkg-deb", "-x", file, dir); err != nil {
			return err
		}
	}
	if err := linkWithin(dir); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755) // unpacking set it to the packages' mode
}

// linkWithin makes a package's links to absolute paths, such as those from Java to /etc, point to what was unpacked.
func linkWithin(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return err
		}
		target, err := os.Readlink(path)
		if err != nil || !filepath.IsAbs(target) {
			return err
		}
		if _, err := os.Lstat(filepath.Join(dir, target)); errors.Is(err, fs.ErrNotExist) {
			return nil // of another package
		}
		relative, err := filepath.Rel(filepath.Dir(path), filepath.Join(dir, target))
		return errors.Join(err, os.Remove(path), os.Symlink(relative, path))
	})
}

// aptClient runs apt-get with its lists and archives in the cache.
type aptClient struct {
	dir     string
	options []string
}

// update fetches the package lists if they are old: old lists name files that no longer exist.
func (a *aptClient) update(ctx context.Context) error {
	stamp := filepath.Join(a.dir, "updated")
	if info, err := os.Stat(stamp); err == nil && time.Since(info.ModTime()) < time.Hour {
		return nil
	}
	if _, err := run(ctx, "", a.command("-q", "update")...); err != nil {
		return err
	}
	return os.WriteFile(stamp, nil, 0o644)
}

func (a *aptClient) command(args ...string) []string {
	return append(append([]string{"apt-get"}, a.options...), args...)
}

func (s *store) apt() (*aptClient, error) { return s.aptIn("apt") }

// aptIn returns apt-get with its state in a directory of the cache.
func (s *store) aptIn(folder string) (*aptClient, error) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, errNoApt
	}
	base := filepath.Join(s.dir, folder)
	for _, dir := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			return nil, err
		}
	}
	me, err := user.Current()
	if err != nil {
		return nil, err
	}
	return &aptClient{dir: base, options: []string{
		"-o", "Dir::State::Lists=" + filepath.Join(base, "lists"),
		"-o", "Dir::Cache=" + filepath.Join(base, "cache"),
		"-o", "APT::Sandbox::User=" + me.Username,
		"-o", "Debug::NoLocking=1",
	}}, nil
}

// installDebian installs packages on the system, if this process is root on Debian or a derivative.
func installDebian(ctx context.Context, packages ...string) error {
	if os.Getuid() != 0 {
		return errPlainUser
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errNoApt
	}
	if _, err := run(ctx, "", "apt-get", "-q", "update"); err != nil {
		return err
	}
	args := append([]string{"apt-get", "-q", "-y", "--no-install-recommends", "install"}, packages...)
	_, err := run(ctx, "", args...)
	return err
}

// run runs a program to completion and returns its output. An error contains the last lines of the output.
func run(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", args[0], err, lastLines(stdout.String()+stderr.String(), 3))
	}
	return stdout.String(), nil
}

// lastLines returns at most n lines from the end of text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
