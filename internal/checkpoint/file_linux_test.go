package checkpoint_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A save to a full disk fails with a clear error, and a later save succeeds once there is space. /dev/full exists on Linux
// only.
//
//covers:all 30 messages
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
