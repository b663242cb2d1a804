package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/trainctl/trainctl/core/tensor"
)

// Entry is one tensor of a safetensors header.
type Entry struct {
	Name string
	tensor.Spec
	Begin, End int64 // within the buffer
}

// Header is a checked safetensors header.
type Header struct {
	Entries  []Entry // in the order of the header
	Metadata map[string]string
	Start    int64 // of the buffer within the file
}

// ErrFormat matches every error about the format of a safetensors file.
var ErrFormat = errors.New("not a valid safetensors file")

func badf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}

// ReadHeader reads and checks the header of a file of the given size. It allocates no
// more than the size of the file, whatever the header claims. Every returned entry is
// within the file and has the size of its shape; the entries cover the buffer without
// gaps or overlap.
func ReadHeader(r io.ReaderAt, size int64) (Header, error) {
	var length [8]byte
	if size < 8 {
		return Header{}, badf("%d bytes are too few for a header length", size)
	}
	if _, err := r.ReadAt(length[:], 0); err != nil {
		return Header{}, err
	}
	if isPickle(r) {
		return Header{}, newPickleError("model.pth", r, size)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > MaxHeader {
		return Header{}, badf("header length %d is over the limit of %d", n, MaxHeader)
	}
	if int64(n) > size-8 {
		return Header{}, badf("header length is %d, but only %d bytes follow", n, size-8)
	}
	text := make([]byte, n)
	if _, err := r.ReadAt(text, 8); err != nil && err != io.EOF {
		return Header{}, err
	}
	h, err := parseHeader(text)
	if err != nil {
		return Header{}, err
	}
	h.Start = 8 + int64(n)
	return h, h.check(size - h.Start)
}

func parseHeader(text []byte) (Header, error) {
	if len(text) == 0 || text[0] != '{' {
		return Header{}, badf("header does not start with {")
	}
	if !utf8.Valid(text) {
		return Header{}, badf("header is not UTF-8")
	}
	p := parser{json.NewDecoder(bytes.NewReader(text))}
	p.UseNumber()
	var h Header
	err := p.object(func(key string) (err error) {
		if key == metadataKey {
			h.Metadata, err = p.stringMap()
			return err
		}
		e, err := p.entry(key)
		h.Entries = append(h.Entries, e)
		return err
	})
	if err != nil {
		return Header{}, badf("header: %w", err)
	}
	if rest := text[p.InputOffset():]; len(bytes.TrimRight(rest, " ")) != 0 {
		return Header{}, badf("%d bytes after the header's object", len(rest))
	}
	return h, nil
}

// check checks the entries for gaps and overlap, and against the buffer.
func (h Header) check(buffer int64) error {
	sorted := slices.Clone(h.Entries)
	slices.SortFunc(sorted, func(a, b Entry) int {
		if a.Begin != b.Begin {
			return int(min(1, max(-1, a.Begin-b.Begin)))
		}
		return int(min(1, max(-1, a.End-b.End)))
	})
	at := int64(0)
	for _, e := range sorted {
		switch {
		case e.Begin < at:
			return badf("tensor %q at %d overlaps the one before it, which ends at %d", e.Name, e.Begin, at)
		case e.Begin > at:
			return badf("hole of %d bytes before tensor %q", e.Begin-at, e.Name)
		}
		at = e.End
	}
	if at != buffer {
		return badf("the tensors end at %d, the buffer has %d bytes", at, buffer)
	}
	return nil
}

// parser reads tokens instead of decoding into a map, which would silently use the last
// of two equal keys.
type parser struct{ *json.Decoder }

func (p parser) delim(want json.Delim) error {
	t, err := p.Token()
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("got %v, want %v", t, want)
	}
	return nil
}

func (p parser) object(member func(key string) error) error {
	if err := p.delim('{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for p.More() {
		t, err := p.Token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok || seen[key] {
			return fmt.Errorf("key %q appears twice", key)
		}
		seen[key] = true
		if err := member(key); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
	}
	return p.delim('}')
}

func (p parser) string() (string, error) {
	t, err := p.Token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("got %v, want a string", t)
	}
	return s, nil
}

func (p parser) stringMap() (map[string]string, error) {
	m := map[string]string{}
	err := p.object(func(key string) error {
		v, err := p.string()
		m[key] = v
		return err
	})
	return m, err
}

// numbers reads an array of integers from 0 to 2⁶³-1.
func (p parser) numbers() ([]int64, error) {
	if err := p.delim('['); err != nil {
		return nil, err
	}
	out := []int64{}
	for p.More() {
		t, err := p.Token()
		if err != nil {
			return nil, err
		}
		n, ok := t.(json.Number)
		if !ok {
			return nil, fmt.Errorf("got %v, want a number", t)
		}
		v, err := strconv.ParseUint(n.String(), 10, 63)
		if err != nil {
			return nil, fmt.Errorf("%s is not a size", n)
		}
		out = append(out, int64(v))
	}
	return out, p.delim(']')
}

func (p parser) entry(name string) (Entry, error) {
	e := Entry{Name: name}
	var offsets, shape []int64
	err := p.object(func(key string) (err error) {
		switch key {
		case "dtype":
			e.DType, err = p.dtype()
		case "shape":
			shape, err = p.numbers()
		case "data_offsets":
			offsets, err = p.numbers()
		default:
			err = errors.New("unknown member")
		}
		return err
	})
	if err != nil {
		return e, err
	}
	if !e.DType.Valid() || shape == nil || len(offsets) != 2 || offsets[0] > offsets[1] {
		return e, errors.New("needs dtype, shape and two ascending data_offsets")
	}
	e.Begin, e.End = offsets[0], offsets[1]
	e.Shape, err = checkedShape(shape, e.DType.Size(), e.End-e.Begin)
	return e, err
}

func (p parser) dtype() (tensor.DType, error) {
	s, err := p.string()
	if err != nil {
		return tensor.Invalid, err
	}
	for d, name := range dtypeNames {
		if name == s {
			return d, nil
		}
	}
	return tensor.Invalid, fmt.Errorf("unknown element type %q", s)
}

func checkedShape(dims []int64, size int, want int64) (tensor.Shape, error) {
	shape := tensor.Shape{}
	n := uint64(1)
	for _, d := range append(slices.Clone(dims), int64(size)) {
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return nil, fmt.Errorf("shape %v overflows", dims)
		}
		n = lo
	}
	if int64(n) != want {
		return nil, fmt.Errorf("shape %v needs %d bytes, the offsets span %d", dims, n, want)
	}
	for _, d := range dims {
		shape = append(shape, int(d))
	}
	return shape, nil
}

// Read reads a whole file that is in memory. The tensors are views
// of b where b is aligned for them, and copies where it is not.
func Read(b []byte) ([]tensor.Named, map[string]string, error) {
	h, err := ReadHeader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, nil, err
	}
	out := make([]tensor.Named, len(h.Entries))
	for i, e := range h.Entries {
		data := b[h.Start+e.Begin : h.Start+e.End : h.Start+e.End]
		out[i] = tensor.Named{Name: e.Name, Tensor: tensor.Of(e.DType, e.Shape, aligned(data, e.DType.Size()))}
	}
	return out, h.Metadata, nil
}

// aligned gives data itself when it starts at a multiple of size, else a copy.
func aligned(data []byte, size int) []byte {
	if len(data) == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(data)))%uintptr(size) == 0 {
		return data
	}
	c := tensor.Aligned(len(data))
	copy(c, data)
	return c
}
