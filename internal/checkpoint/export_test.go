package checkpoint

import (
	"io/fs"
	"os"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Encode exports encode for tests.
var Encode = encode

// Decode returns the checkpoint in a stored value.
func Decode(value []byte) (cdc.Checkpoint, error) {
	c, err := decode(value)
	return c.Checkpoint, err
}

// SetOpen replaces the function that opens the temporary file.
func (f *File) SetOpen(open func(name string, flag int, perm fs.FileMode) (*os.File, error)) {
	f.open = open
}
