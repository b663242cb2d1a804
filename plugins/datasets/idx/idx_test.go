package idx

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/afero"
)

func encode(magic uint32, dims []uint32, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, magic)
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, d)
	}
	return append(b, data...)
}

func zipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var good = encode(0x803, []uint32{2, 2, 3}, []byte("abcdefABCDEF"))

func TestParse(t *testing.T) {
	for name, raw := range map[string][]byte{"plain": good, "gzip": zipped(t, good)} {
		a, err := parse(raw, 3)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !slices.Equal(a.Dims, []int{2, 2, 3}) || string(a.Data) != "abcdefABCDEF" {
			t.Errorf("%s: got %v %q", name, a.Dims, a.Data)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	packed := zipped(t, good)
	flip := func(b []byte, at int) []byte { b = slices.Clone(b); b[at] ^= 0x40; return b }
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(i * i >> 3)
	}
	long := zipped(t, encode(0x803, []uint32{1, 64, 64}, noise))
	cases := []struct {
		name   string
		raw    []byte
		offset int64
		detail string
	}{
		{"empty", nil, 0, "inside the magic"},
		{"html", []byte("<html><body>moved"), 0, "magic number 0x3c68746d"},
		{"labels for images", encode(0x801, []uint32{3}, []byte("abc")), 0, "magic number 0x00000801, expected 0x00000803"},
		{"header cut", good[:9], 9, "inside its header"},
		{"no images", encode(0x803, []uint32{0, 28, 28}, nil), 4, "dimension 0 is 0"},
		{"overflow", encode(0x803, []uint32{1 << 31, 1 << 31, 1 << 31}, nil), 4, "more than"},
		{"overflow later", encode(0x803, []uint32{60000, 1 << 20, 28}, nil), 8, "more than"},
		{"truncated", good[:len(good)-1], 27, "announces 28 bytes, the file has 27"},
		{"trailing", append(slices.Clone(good), 0), 28, "1 bytes follow"},
		{"gzip header cut", packed[:8], 0, "truncated"},
		{"gzip cut", long[:len(long)-200], 0, "gzip trailer"},
		{"gzip checksum", flip(packed, len(packed)-8), 28, "checksum"},
		{"gzip length", flip(packed, len(packed)-1), 0, "gzip trailer"},
		{"gzip trailing", zipped(t, append(slices.Clone(good), 0)), 28, "1 bytes follow"},
		{"gzip truncated inside", zipped(t, good[:len(good)-1]), 27, "announces 28 bytes"},
		{"gzip of html", zipped(t, []byte("<html>")), 0, "magic number"},
		{"behind gzip", append(slices.Clone(packed), packed[len(packed)-8:]...), 28, "follow the gzip stream"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(c.raw, 3)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if e.Offset != c.offset || !strings.Contains(e.Detail, c.detail) {
				t.Errorf("got offset %d: %s; want offset %d and %q", e.Offset, e.Detail, c.offset, c.detail)
			}
			if e.Help == "" {
				t.Errorf("no fix in %q", e)
			}
		})
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	fs := afero.NewMemMapFs()
	if err := afero.WriteFile(fs, "/d/x", good[:20], 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := loadFile(fs, "/d/x", 3)
	if err == nil || !strings.HasPrefix(err.Error(), "/d/x: offset 20: truncated") {
		t.Errorf("got %v", err)
	}
	if _, err := loadFile(fs, "/d", 3); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: got %v", err)
	}
	if _, err := loadFile(fs, "/d/none", 3); err == nil {
		t.Error("a missing file gave no error")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good, 3)
	f.Add(zipped(f, good), 3)
	f.Add(encode(0x801, []uint32{3}, []byte("abc")), 1)
	f.Add(zipped(f, good)[:20], 3)
	f.Fuzz(func(t *testing.T, raw []byte, dims int) {
		if dims < 1 || dims > MaxDims {
			t.Skip("the caller names the dimensions")
		}
		a, err := parse(raw, dims)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Offset < 0 {
				t.Fatalf("error %v is not an *Error with a place", err)
			}
			return
		}
		n := 1
		for _, d := range a.Dims {
			n *= d
		}
		if len(a.Dims) != dims || n != len(a.Data) {
			t.Fatalf("dims %v with %d bytes", a.Dims, len(a.Data))
		}
		if limit := maxRatio * len(raw); n > limit {
			t.Fatalf("%d bytes out of %d", n, len(raw))
		}
	})
}

// loadFile reads and checks one file, without a cache.
func loadFile(fs afero.Fs, path string, dims int) (*Array, error) {
	raw, err := readBounded(fs, path)
	if err != nil {
		return nil, err
	}
	return parseNamed(raw, path, dims)
}
