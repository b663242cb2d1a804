package pipe

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// most is how many bytes are read after the deadline: what a pipe holds at most, unless its size was
// raised with privileges. A process that still writes would keep the reader for ever.
const most = 1 << 20

// Reader reads our end of a pipe. A read deadline, set on File, ends only the wait for more: what was
// written before it is read even if this process gets no processor time until after it. A read then
// fails with [os.ErrDeadlineExceeded] once the pipe is empty.
//
// File must be in non-blocking mode, as those of [os.Pipe] are until their Fd is called. One goroutine
// may read at a time.
type Reader struct {
	File *os.File
	late int // bytes read after the deadline
}

func (r *Reader) Read(b []byte) (int, error) {
	if r.late == 0 {
		if n, err := r.File.Read(b); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
	if r.late >= most {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := readNow(r.File, b[:min(len(b), most-r.late)])
	r.late += n
	return n, err
}

// readNow reads without waiting, whatever the deadline.
func readNow(f *os.File, b []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = errors.Join(raw.Control(func(fd uintptr) {
		for n, err = unix.Read(int(fd), b); err == unix.EINTR; n, err = unix.Read(int(fd), b) {
		}
	}), err)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return 0, os.ErrDeadlineExceeded
	case err != nil:
		return 0, err
	case n == 0 && len(b) > 0:
		return 0, io.EOF
	}
	return n, nil
}
