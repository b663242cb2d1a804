package numpy

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/openfile"
	"github.com/trainctl/trainctl/core/base/pattern"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/datasets/samples"
)

// load reads one array. key is the option that names it.
func load(fsys afero.Fs, p place, key string) (*samples.Array, error) {
	if err := samples.Find(fsys, key, p.file); err != nil {
		return nil, err
	}
	f, info, err := openfile.WithInfo(fsys, p.file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	var from io.Reader = f
	size := info.Size()
	if strings.HasSuffix(p.file, ".npz") {
		member, err := find(f, info.Size(), p, key)
		if err != nil {
			return nil, err
		}
		content, err := member.Open()
		if err != nil {
			return nil, fmt.Errorf("%v: %w", p, err)
		}
		defer content.Close()
		from, size = content, int64(member.UncompressedSize64)
	}
	a, err := read(from, size)
	if err != nil {
		return nil, fmt.Errorf("%v: %w; save the array again with numpy.save or numpy.savez", p, err)
	}
	a.Name = p.String()
	return a, nil
}

// find returns the member of an archive; it need not be named if it is the only one.
func find(f io.ReaderAt, size int64, p place, key string) (*zip.File, error) {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return nil, fmt.Errorf("%s is not a NumPy archive: %w", p.file, err)
	}
	var names []string
	for _, m := range z.File {
		n := strings.TrimSuffix(m.Name, ".npy")
		if n == p.member || p.member == "" && len(z.File) == 1 {
			return m, nil
		}
		names = append(names, n)
	}
	slices.Sort(names)
	return nil, usererr.Errorf(key, fmt.Sprintf("name one of them, as in %q; it has %s", p.file+":"+slices.Concat(names, []string{"NAME"})[0], strings.Join(names, ", ")),
		"%s has no array %q", p.file, p.member)
}

// The header of a .npy file: a Python dictionary with three keys
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
var (
	descr   = pattern.Lazy{Expr: `'descr'\s*:\s*'([<>|=])([a-zA-Z]\d+)'`}
	fortran = pattern.Lazy{Expr: `'fortran_order'\s*:\s*(True|False)`}
	shape   = pattern.Lazy{Expr: `'shape'\s*:\s*\(([\d,\sL]*)\)`}
)

const (
	magic      = "\x93NUMPY"
	mostHeader = 1 << 20
	mostBytes  = 1 << 40
)

// read reads an array of the format's versions 1 to 3, of size bytes with its header or fewer.
func read(from io.Reader, size int64) (*samples.Array, error) {
	text, err := header(from)
	if err != nil {
		return nil, err
	}
	d, f, s := descr.Get().FindStringSubmatch(text), fortran.Get().FindStringSubmatch(text), shape.Get().FindStringSubmatch(text)
	if d == nil || f == nil || s == nil {
		return nil, fmt.Errorf("the header %q is of no array of numbers", strings.TrimSpace(text))
	}
	a := &samples.Array{Kind: samples.Kind(d[2])}
	each := samples.Sizes[a.Kind]
	if each == 0 {
		return nil, fmt.Errorf("elements of type %q are not supported; convert the array to float32, float64 or an integer type", d[1]+d[2])
	}
	bytes := int64(each)
	for _, field := range strings.FieldsFunc(s[1], func(r rune) bool { return r == ',' || r == ' ' || r == 'L' }) {
		n, err := strconv.ParseInt(field, 10, 48)
		if err != nil || n > 0 && bytes > mostBytes/n {
			return nil, fmt.Errorf("the shape (%s) is too large", s[1])
		}
		bytes *= n
		a.Shape = append(a.Shape, int(n))
	}
	switch {
	case len(a.Shape) == 0:
		return nil, fmt.Errorf("it is a single number, not an array of samples")
	case bytes > size:
		return nil, fmt.Errorf("an array of %v needs %d bytes and the file has %d: it is truncated", a.Shape, bytes, size)
	}
	a.Data = tensor.Aligned(int(bytes))
	if n, err := io.ReadFull(from, a.Data); err != nil {
		return nil, fmt.Errorf("it ends after %d of the %d bytes of an array of %v: %w", n, bytes, a.Shape, err)
	}
	if d[1] == ">" {
		swap(a.Data, each)
	}
	if f[1] == "True" {
		a.Data = transposed(a.Data, each, a.Shape)
	}
	return a, nil
}

func header(from io.Reader) (string, error) {
	start := make([]byte, len(magic)+2+4)
	if _, err := io.ReadFull(from, start[:len(magic)+2]); err != nil || string(start[:len(magic)]) != magic {
		return "", fmt.Errorf("it does not begin as an array of NumPy")
	}
	length := start[len(magic)+2:]
	switch start[len(magic)] {
	case 1:
		length = length[:2]
	case 2, 3:
	default:
		return "", fmt.Errorf("version %d of the format is not known", start[len(magic)])
	}
	if _, err := io.ReadFull(from, length); err != nil {
		return "", err
	}
	n := binary.LittleEndian.Uint32(append(slices.Clone(length), 0, 0)[:4])
	if n > mostHeader {
		return "", fmt.Errorf("its header has %d bytes", n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(from, text); err != nil {
		return "", err
	}
	return string(text), nil
}

// swap turns big-endian elements into little-endian ones.
func swap(data []byte, size int) {
	for at := 0; at < len(data); at += size {
		slices.Reverse(data[at : at+size])
	}
}

// transposed converts an array in Fortran order, whose first dimension varies fastest, to C order.
func transposed(data []byte, size int, shape tensor.Shape) []byte {
	out := tensor.Aligned(len(data))
	index := make([]int, len(shape))
	for at := 0; at < len(out); at += size {
		from, stride := 0, size
		for d, i := range index {
			from += i * stride
			stride *= shape[d]
		}
		copy(out[at:at+size], data[from:])
		for d := len(index) - 1; d >= 0; d-- { // count up in C order
			if index[d]++; index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
	}
	return out
}
