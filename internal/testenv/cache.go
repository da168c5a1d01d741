package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// store is the cache directory. Each entry is a directory that is renamed into place once it is complete.
type store struct {
	dir string
	out io.Writer // one line for each fetch; never nil
}

func newStore(out io.Writer) (*store, error) {
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create cache %s (CDC_RELAY_CACHE chooses another place): %w", dir, err)
	}
	return &store{dir: dir, out: out}, nil
}

// cacheDir returns CDC_RELAY_CACHE, else .cache in the checkout, else the user's cache directory. If the current user is
// root, servers run as another user, so a checkout that only root can enter is not used.
func cacheDir() (string, error) {
	if dir := os.Getenv("CDC_RELAY_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	if root, ok := checkout(); ok && (os.Getuid() != 0 || traversable(root)) {
		return filepath.Join(root, ".cache"), nil
	}
	if os.Getuid() == 0 {
		return "/var/cache/cdc-relay", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache folder (set CDC_RELAY_CACHE): %w", err)
	}
	return filepath.Join(dir, "cdc-relay"), nil
}

// checkout returns the nearest directory above the working directory that has a go.work.
func checkout() (string, bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", false
		}
		dir = up
	}
}

// traversable reports whether every user may enter dir.
func traversable(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// entry returns the directory of an entry and fills it first if it does not exist. Of several concurrent processes only
// one fills it.
func (s *store) entry(ctx context.Context, name string, fill func(dir string) error) (string, error) {
	final := filepath.Join(s.dir, name)
	if s.has(name) {
		return final, nil
	}
	unlock, err := lockFile(ctx, filepath.Join(s.dir, name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if s.has(name) {
		return final, nil
	}
	if err := s.fill(final, name, fill); err != nil {
		return "", fmt.Errorf("fetch %s: %w", name, err)
	}
	return final, nil
}

func (s *store) has(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil
}

// say prints a progress line.
func (s *store) say(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format+"\n", args...) }

func (s *store) fill(final, name string, fill func(dir string) error) error {
	old, err := filepath.Glob(filepath.Join(s.dir, "tmp-"+name+"-*")) // left by a killed process: this one holds the lock
	if err != nil {
		return err
	}
	for _, dir := range old {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	tmp, err := os.MkdirTemp(s.dir, "tmp-"+name+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := fill(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, final)
}

// lockFile waits for an exclusive lock on path. The kernel releases it when its holder ends.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	for {
		file, err := tryLock(path)
		if err != nil {
			return nil, err
		}
		if file != nil {
			return func() { _ = file.Close() }, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the process that holds %s: %w", path, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tryLock returns the locked file, or nil if another process holds the lock.
func tryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil //nolint:nilnil // another process holds the lock: not an error
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}
