package openfile

import (
	"errors"
	"io/fs"

	"github.com/spf13/afero"
)

// Opener opens files by name; it is part of an [afero.Fs].
type Opener interface {
	Open(name string) (afero.File, error)
}

// WithInfo opens a file for reading and describes it. The caller closes it. Errors name the path.
func WithInfo(fsys Opener, path string) (afero.File, fs.FileInfo, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}
