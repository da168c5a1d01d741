package checkpoint_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestFileDiskFull is row 30 of the fault matrix for the checkpoint: a clear error, nothing lost, and on
// it goes once there is space. /dev/full, the disk that is always full, is Linux's.
func TestFileDiskFull(t *testing.T) {
	file, path := newFile(t)
	full := func(string, int, fs.FileMode) (*os.File, error) { return os.OpenFile("/dev/full", os.O_WRONLY, 0) }
	file.SetOpen(full)
	wantPassing(t, file.Save(t.Context(), numbered(1, 1)), path, "disk full", "free space under "+filepath.Dir(path))
	file.SetOpen(os.OpenFile)
	must(t, file.Save(t.Context(), numbered(1, 2)))
	file.SetOpen(full)
	wantPassing(t, file.Save(t.Context(), numbered(1, 3)), "disk full")
	if c, found, err := file.Load(t.Context()); err != nil || !found || c.Sequence != 2 {
		t.Errorf("left %+v, %t, %v", c, found, err)
	}
	file.SetOpen(os.OpenFile)
	must(t, file.Save(t.Context(), numbered(1, 4)))
}
