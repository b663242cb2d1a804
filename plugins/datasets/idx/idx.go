package idx

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/openfile"
)

// Limits for the values in a header.
const (
	MaxDims  = 8
	MaxBytes = 1 << 30 // elements of one file
)

const typeU8 = 0x08

// Array is the content of one file of unsigned bytes.
type Array struct {
	Dims []int  // outermost first
	Data []byte // product of Dims bytes

	whole []byte // the decompressed file, Data included; nil when it was not compressed
}

// Error reports a file that cannot be used.
type Error struct {
	Path   string // empty when the bytes came from elsewhere
	Offset int64  // where in the (decompressed) content
	Detail string
	Help   string
}

func (e *Error) Error() string {
	s := e.Detail
	if e.Path != "" {
		s = e.Path + ": offset " + strconv.FormatInt(e.Offset, 10) + ": " + s
	}
	if e.Help != "" {
		s += "; " + e.Help
	}
	return s
}

func wrongf(offset int64, help, format string, args ...any) *Error {
	return &Error{Offset: offset, Help: help, Detail: fmt.Sprintf(format, args...)}
}

const again = "delete the file and fetch it again"

func parseNamed(raw []byte, path string, dims int) (*Array, error) {
	a, err := parse(raw, dims)
	if e, ok := err.(*Error); ok {
		e.Path = path
	}
	return a, err
}

func readBounded(fs afero.Fs, path string) ([]byte, error) {
	f, info, err := openfile.WithInfo(fs, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !info.Mode().IsRegular() {
		return nil, &Error{Path: path, Detail: "not a regular file", Help: "give the folder that has the IDX files"}
	}
	if info.Size() > MaxBytes+headerLen(MaxDims) {
		return nil, &Error{Path: path, Offset: MaxBytes, Detail: fmt.Sprintf("the file has %d bytes, more than this reader accepts (%d)", info.Size(), MaxBytes)}
	}
	raw := make([]byte, info.Size())
	if n, err := io.ReadFull(f, raw); err != nil {
		return nil, &Error{Path: path, Offset: int64(n), Detail: fmt.Sprintf("the file shrank from %d to %d bytes while it was read", len(raw), n), Help: "wait until the copy is complete"}
	}
	return raw, nil
}

// parse checks the bytes of one file with the given number of dimensions. The
// array aliases raw when raw is not compressed. Errors are *Error.
func parse(raw []byte, dims int) (*Array, error) {
	if isGzip(raw) {
		return parseGzip(raw, dims)
	}
	h, err := parseHeader(raw, dims)
	if err != nil {
		return nil, err
	}
	if err := checkLength(h, int64(len(raw))); err != nil {
		return nil, err
	}
	return &Array{Dims: h.dims, Data: raw[h.len:]}, nil
}

type header struct {
	dims  []int
	len   int64 // of the header itself
	bytes int64 // of the elements
}

func headerLen(dims int) int64 { return 4 + 4*int64(dims) }

func parseHeader(b []byte, dims int) (header, error) {
	if dims < 1 || dims > MaxDims {
		panic(fmt.Sprintf("idx: %d dimensions", dims))
	}
	if len(b) < 4 {
		return header{}, wrongf(int64(len(b)), again, "the file ends inside the magic number")
	}
	want := uint32(typeU8<<8 | dims)
	if got := binary.BigEndian.Uint32(b); got != want {
		return header{}, wrongf(0, "is this an IDX file of unsigned bytes with "+strconv.Itoa(dims)+" dimension(s)? "+again,
			"magic number %#08x, expected %#08x", got, want)
	}
	h := header{dims: make([]int, dims), len: headerLen(dims), bytes: 1}
	if int64(len(b)) < h.len {
		return header{}, wrongf(int64(len(b)), again, "the file ends inside its header")
	}
	for i := range h.dims {
		at := 4 + 4*i
		d := int64(binary.BigEndian.Uint32(b[at:]))
		if d == 0 {
			return header{}, wrongf(int64(at), again, "dimension %d is 0", i)
		}
		if h.bytes *= d; h.bytes > MaxBytes {
			return header{}, wrongf(int64(at), again, "the header announces more than %d bytes", MaxBytes)
		}
		h.dims[i] = int(d)
	}
	return h, nil
}

func checkLength(h header, got int64) error {
	switch want := h.len + h.bytes; {
	case got < want:
		return wrongf(got, again, "truncated: the header %v announces %d bytes, the file has %d", h.dims, want, got)
	case got > want:
		return wrongf(want, again, "%d bytes follow the last element announced by the header %v", got-want, h.dims)
	}
	return nil
}
