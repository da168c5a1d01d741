package checkpoint

import (
	"io/fs"
	"os"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// What the tests see of the package beyond its public face.
var Encode = encode

// SetOpen replaces what opens the temporary file.
// Decode returns what Load makes of it where it is no reset.
func Decode(value []byte) (cdc.Checkpoint, error) {
	c, err := decode(value)
	return c.Checkpoint, err
}

func (f *File) SetOpen(open func(name string, flag int, perm fs.FileMode) (*os.File, error)) {
	f.open = open
}
