package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// explain turns a system error into one with the location, the cause and the fix.
func (f *File) explain(verb string, err error) error {
	d := f.diagnose(err)
	if d == (diagnosis{}) {
		return fmt.Errorf("%s in %s: %w", verb, f.location.name, err)
	}
	cause := &failure{text: fmt.Sprintf("%s: %s %s", verb, f.location.name, d.what), err: err}
	if d.mistake && !f.saved {
		return cdc.Stop(cdc.ClassConfig, "checkpoint_config", cause, d.fix)
	}
	return &cdc.FixableError{Cause: cause, Fix: d.fix}
}

func (f *File) diagnose(err error) diagnosis {
	dir := filepath.Dir(f.path)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return temporary("finds the disk full", "free space under "+dir)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return temporary("cannot be opened because no file descriptor is free", "raise the limit (ulimit -n, LimitNOFILE=)")
	case errors.Is(err, syscall.EROFS):
		return mistake("lies on a read-only file system", "make it writable, or copy the checkpoint to a directory that the relay may write and name it in checkpoint.file")
	case errors.Is(err, fs.ErrPermission):
		return mistake("may not be used (permission denied)", fmt.Sprintf("run this as the relay's user, or make %s and the files in it belong to that user (this process has uid %d)", dir, os.Getuid()))
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR):
		return mistake("is not a file in a directory", "name a file in checkpoint.file")
	case errors.Is(err, syscall.EBUSY):
		return mistake("is a mount of its own and cannot be replaced", "mount its directory instead of the file")
	case errors.Is(err, fs.ErrNotExist) && isDir(dir): // as in /proc
		return mistake("cannot be created in its directory", "name a file in a directory that the relay may write in checkpoint.file")
	case errors.Is(err, fs.ErrNotExist):
		return mistake("has no directory", "mount "+dir+", or create it and make it belong to the relay's user")
	default:
		return diagnosis{}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Check verifies that the file can be read and its directory written, and changes nothing.
func (f *File) Check(ctx context.Context) []cdc.Finding {
	c, found, err := f.Load(ctx)
	if err != nil {
		return []cdc.Finding{failed(err)}
	}
	if err := f.tryWrite(); err != nil {
		return []cdc.Finding{failed(f.explain("write checkpoint", err))}
	}
	ok := cdc.Finding{Severity: cdc.SeverityOK, Subject: subject, Text: f.location.name + " can be read and written"}
	if found {
		ok.Text += fmt.Sprintf(" (it holds a checkpoint of %s)", describe(c.Source))
	}
	return []cdc.Finding{ok}
}

// tryWrite creates a file beside the checkpoint, under a name that a running relay does not use.
func (f *File) tryWrite() error {
	file, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".check-*")
	if err != nil {
		return err
	}
	_, err = file.WriteString("checked\n")
	return errors.Join(err, file.Close(), os.Remove(file.Name()))
}
