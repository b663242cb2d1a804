package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/afero"
)

// PickleError reports a file written by torch.save: pickled Python objects, which can
// run any code when loaded. trainctl never loads them.
type PickleError struct {
	Path string
	// Global is the first thing in it, as "os.system", that weights have no use for; "" without one.
	Global string
}

func (e *PickleError) Error() string {
	to := strings.TrimSuffix(e.Path, filepath.Ext(e.Path)) + ".safetensors"
	named := ""
	if e.Global != "" {
		named = fmt.Sprintf(" (this one refers to %.100s, which weights do not need)", strconv.Quote(e.Global))
	}
	return fmt.Sprintf(`it is a pickle file, as written by torch.save, and loading a pickle can run any code it contains%s; fix: if you trust the file, convert it with Python and use the new file:
  import torch; from safetensors.torch import save_file
  save_file({k: v.clone().contiguous() for k, v in torch.load(%q, map_location="cpu", weights_only=True).items()}, %q)`, named, e.Path, to)
}

// Unwrap makes it one of the errors of a file that is not a safetensors file.
func (e *PickleError) Unwrap() error { return ErrFormat }

// The first bytes of torch.save's files: since 1.6 a zip archive in which
// data.pkl comes first, before that a pickle of a number.
var (
	zipMagic    = []byte("PK\x03\x04")
	zipEntry    = []byte("data.pkl")
	legacyMagic = []byte("\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19")
)

// pickleHead is how much of a file is needed to recognise it: the first entry's name.
const pickleHead = 1024

// isPickle checks the content, not the name.
func isPickle(r io.ReaderAt) bool {
	head := make([]byte, pickleHead)
	n, _ := r.ReadAt(head, 0) // a short file is read whole
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, zipMagic):
		return bytes.Contains(head, zipEntry)
	case n > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5: // PROTO 2 to 5
		return bytes.HasPrefix(head[2:], legacyMagic) || n > 8 && head[8] != '{' // a safetensors header would begin there
	}
	return false
}

// RefusePickle is the error for a file that is a pickle, nil for any other.
func RefusePickle(fsys afero.Fs, path string) error {
	f, err := fsys.Open(path)
	if err != nil {
		return nil // reading it reports the error
	}
	defer f.Close()
	if !isPickle(f) {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return &PickleError{Path: path}
	}
	return newPickleError(path, f, info.Size())
}

// PickleAt adds the path to the error of a pickle that was read without its name.
func PickleAt(path string, err error) error {
	var pickle *PickleError
	if errors.As(err, &pickle) {
		pickle.Path = path
	}
	return err
}

func newPickleError(path string, r io.ReaderAt, size int64) *PickleError {
	return &PickleError{Path: path, Global: foreignGlobal(r, size)}
}
