package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// File keeps the checkpoint in a file, with two more beside it: PATH.lock, whose lock is held from the
// first Claim, Save or Reset until Close, and PATH.tmp while a save is under way. It is safe for concurrent
// use.
//
// Load needs no lock, since a rename is atomic: `position show` works while a relay runs, and a standby
// can load before it leads.
type File struct {
	path     string
	location location
	// open opens the temporary file; tests make it fail.
	open func(name string, flag int, perm fs.FileMode) (*os.File, error)

	mu   sync.Mutex
	lock *flock.Flock
	// saved is set by the first successful save; see Redis.last.
	saved bool
}

// NewFile returns a store for a file, which it does not open yet. The directory must exist.
func NewFile(path string) *File {
	return &File{
		path:     path,
		location: location{name: "checkpoint file " + path, setting: "checkpoint.file"},
		open:     os.OpenFile,
		lock:     flock.New(path+".lock", flock.SetPermissions(0o600)),
	}
}

// Load returns what is stored.
func (f *File) Load(ctx context.Context) (c cdc.Checkpoint, found bool, err error) {
	if err := ctx.Err(); err != nil {
		return cdc.Checkpoint{}, false, fmt.Errorf("load checkpoint: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	value, found, err := f.read()
	if err != nil || !found {
		return cdc.Checkpoint{}, false, err
	}
	return f.location.load(value)
}

// Location is the path.
func (f *File) Location() string { return "file " + f.path }

func (f *File) read() (value []byte, found bool, err error) {
	if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() { // a device may never end
		return nil, false, f.explain("load checkpoint", syscall.EISDIR)
	}
	value, err = os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = os.Stat(filepath.Dir(f.path)); err == nil {
			return nil, false, nil
		}
	}
	if err != nil {
		return nil, false, f.explain("load checkpoint", err)
	}
	return value, true, nil
}

// lockWait is how long a claim waits for another process to end that holds the lock.
const lockWait = time.Second

// Claim is Save if loaded is still stored, or nothing is. While another process holds the lock its error wraps
// [cdc.ErrStandby].
func (f *File) Claim(ctx context.Context, next, loaded cdc.Checkpoint) error {
	waiting, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	if held, err := f.lock.TryLockContext(waiting, lockWait/10); !held && waiting.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %s is in use by another process, which holds %s", cdc.ErrStandby, f.location.name, f.lock.Path())
	} else if err != nil {
		return f.explain("lock checkpoint", err)
	}
	return f.store(ctx, next, &loaded)
}

// Save stores c unless it is refused (see the package comment): when it returns nil, c survives a crash
// of the machine.
func (f *File) Save(ctx context.Context, c cdc.Checkpoint) error { return f.store(ctx, c, nil) }

// store is Save, or a claim that replaces a checkpoint.
func (f *File) store(ctx context.Context, c cdc.Checkpoint, replaces *cdc.Checkpoint) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	value, err := encode(c)
	if err != nil {
		return err
	}
	value = append(value, '\n')
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.hold(); err != nil {
		return err
	}
	stored, found, err := f.read()
	if err == nil && found {
		err = f.location.mayStore(c, value, stored, replaces)
	}
	if err != nil {
		return err
	}
	if err := f.replace(value); err != nil {
		return f.explain("save checkpoint", err)
	}
	f.saved = true
	return nil
}

// hold takes the lock, once.
func (f *File) hold() error {
	held, err := f.lock.TryLock()
	switch {
	case err != nil:
		return f.explain("lock checkpoint", err)
	case !held:
		return cdc.Fixable("stop the other relay, or give each relay its own checkpoint.file",
			"%s is in use by another process, which holds %s", f.location.name, f.lock.Path())
	default:
		return nil
	}
}

// replace writes and syncs a temporary file, renames it over the checkpoint, and syncs the directory so that the new
// name survives a crash.
func (f *File) replace(value []byte) error {
	temp := f.path + ".tmp"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) { // a crash may have left one
		return err
	}
	err := f.write(temp, value)
	if err == nil {
		err = os.Rename(temp, f.path)
	}
	if err != nil {
		_ = os.Remove(temp) // the first error is reported
		return err
	}
	return f.syncDir()
}

func (f *File) write(name string, value []byte) error {
	file, err := f.open(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(value)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func (f *File) syncDir() error {
	dir, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Reset deletes the checkpoint of any source. It fails while a relay holds the lock.
func (f *File) Reset(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("reset checkpoint: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.hold(); err != nil {
		return err
	}
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.explain("reset checkpoint", err)
	}
	if err := f.syncDir(); err != nil {
		return f.explain("reset checkpoint", err)
	}
	return nil
}

// Close releases the lock.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.lock.Unlock(); err != nil {
		return f.explain("unlock checkpoint", err)
	}
	return nil
}
