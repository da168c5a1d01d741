package checkpoint

import (
	"io/fs"
	"os"
)

// What the tests see of the package beyond its public face.
var (
	Encode = encode
	Decode = decode
)

// SetOpen replaces what opens the temporary file.
func (f *File) SetOpen(open func(name string, flag int, perm fs.FileMode) (*os.File, error)) {
	f.open = open
}
