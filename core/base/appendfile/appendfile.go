package appendfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/spf13/afero"
)

// pause is how long nothing is tried after a failed write.
const pause = 100 * time.Millisecond

// File appends whole lines. It belongs to one goroutine at a time.
type File struct {
	w   io.Writer
	gap func(lost int, cause error) string

	open  bool // the last line has no end yet
	torn  bool // and gets none
	lost  int  // lines since the last good write
	cause error
	tried time.Time
}

// New returns a File that writes to w. gap returns the line, without a newline,
// that replaces lines that could not be written.
func New(w io.Writer, gap func(lost int, cause error) string) *File { return &File{w: w, gap: gap} }

// Open appends to the file at path, or with anew truncates it first. It ends an
// unfinished line of an earlier writer. The caller closes the file.
func Open(fsys afero.Fs, path string, anew bool, gap func(lost int, cause error) string) (*File, io.Closer, error) {
	mode := os.O_CREATE | os.O_RDWR | os.O_APPEND
	if anew {
		mode |= os.O_TRUNC
	}
	f, err := fsys.OpenFile(path, mode, 0o644)
	if err != nil {
		return nil, nil, err
	}
	a := New(f, gap)
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		_, err := f.ReadAt(last, info.Size()-1)
		a.torn = err == nil && last[0] != '\n'
	}
	return a, f, nil
}

// Append adds b, which has n newlines, or none of it. It returns an error when a
// write fails first, and nil while later lines are lost for the same reason.
func (a *File) Append(b []byte, n int) error {
	if a.lost > 0 && time.Since(a.tried) < pause {
		a.lost += n
		return nil
	}
	return a.append(b, n)
}

func (a *File) append(b []byte, n int) error {
	var head []byte
	if a.torn {
		head = append(head, '\n')
	}
	if a.lost > 0 {
		head = append(head, a.gap(a.lost, a.cause)...)
		head = append(head, '\n')
	}
	if len(head) > 0 {
		b = append(head, b...)
	}
	a.tried = time.Now()
	err := Write(a.w, b)
	if err == nil {
		a.torn, a.lost = false, 0
		a.open = len(b) > 0 && b[len(b)-1] != '\n'
		return nil
	}
	if a.open || errors.As(err, new(*tornError)) {
		a.open, a.torn = false, true
	}
	first := a.lost == 0
	a.lost, a.cause = a.lost+n, err
	if !first {
		return nil
	}
	return err
}

// Flush writes how many lines are missing, if writing works again.
func (a *File) Flush() {
	if a.lost > 0 {
		_ = a.append(nil, 0)
	}
}

// Gone reports whether the reader is gone, so that no later write can succeed.
func Gone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, fs.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}

// tornError reports a partial write that could not be undone.
type tornError struct{ error }

func (e *tornError) Unwrap() error { return e.error }

// Write writes all of b or nothing: if w is a file, a partial write is undone.
func Write(w io.Writer, b []byte) error {
	n, err := w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err == nil || n <= 0 {
		return err
	}
	f, ok := w.(interface {
		Stat() (fs.FileInfo, error)
		Truncate(int64) error
	})
	if !ok {
		return &tornError{err}
	}
	info, serr := f.Stat()
	if serr != nil || !info.Mode().IsRegular() || f.Truncate(info.Size()-int64(n)) != nil {
		return &tornError{err}
	}
	return err
}

// Missing describes a gap for people.
func Missing(what string, lost int, cause error) string {
	return fmt.Sprintf("%d %s are missing here, because they could not be written: %v", lost, what, cause)
}
