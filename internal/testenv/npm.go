package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// unpackNPM unpacks an npm package into dir/package.
func unpackNPM(ctx context.Context, dir, pkg string) error {
	if _, err := run(ctx, dir, "npm", "pack", "--silent", pkg); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err := run(ctx, dir, "tar", "-xzf", file); err != nil {
			return err
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return errors.Join(openUp(dir), relink(filepath.Join(dir, "package")))
}

// needNPM installs npm if it is missing, where it may.
func needNPM(ctx context.Context) error {
	if _, err := exec.LookPath("npm"); err == nil {
		return nil
	}
	if err := installDebian(ctx, "npm"); err != nil {
		return fmt.Errorf("%w: %w", errNoNPM, err)
	}
	return nil
}

// openUp makes a directory tree world-readable, because servers may run as another user.
func openUp(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.Chmod(path, info.Mode().Perm()|0o444|info.Mode().Perm()&0o100>>2|info.Mode().Perm()&0o100>>1)
	})
}

// relink creates the symbolic links that the package lists, because npm packages cannot contain any.
func relink(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "native", "pg-symlinks.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("read pg-symlinks.json: %w", err)
	}
	for _, link := range links {
		target := filepath.Join(dir, link.Target)
		source, err := filepath.Rel(filepath.Dir(target), filepath.Join(dir, link.Source))
		if err != nil {
			return err
		}
		if err := os.Symlink(source, target); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}
