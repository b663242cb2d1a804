package dl

import (
	"errors"
	"fmt"
	"path/filepath"
)

// ErrUnsupported is returned by Open if the build has no dynamic linker: another
// system than Linux and macOS, the tag nogpu, or linux/arm64 without the tag gpu.
var ErrUnsupported = errors.New("this build cannot open shared libraries")

// Library is an open shared library. It stays open until the process ends:
// the CUDA libraries start threads and register exit handlers, so unloading
// one pulls code away from under them.
type Library struct {
	Path   string // as it was opened
	handle uintptr
}

// Open opens a shared library with RTLD_NOW|RTLD_GLOBAL. A path without a
// slash is left to the dynamic linker's own search.
func Open(path string) (*Library, error) {
	h, err := dlopen(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", filepath.Base(path), err)
	}
	return &Library{Path: path, handle: h}, nil
}

// Symbol is the address of a C symbol, 0 when the library has none of that name.
func (l *Library) Symbol(name string) uintptr { return dlsym(l.handle, name) }

// MissingError reports that a library is too old, or too new, for a function.
type MissingError struct {
	Library string // "libnccl.so.2"
	Symbol  string
	Since   string // the first version that has it, "" where every supported one should
}

func (e *MissingError) Error() string {
	if e.Since == "" {
		return fmt.Sprintf("%s has no function %s: it is damaged, or of an unknown version", e.Library, e.Symbol)
	}
	return fmt.Sprintf("%s has no function %s, which came with version %s", e.Library, e.Symbol, e.Since)
}
