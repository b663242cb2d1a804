package dl

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// cached looks sonames up in the dynamic linker's cache, /etc/ld.so.cache, as
// ldconfig of glibc writes it. An unreadable or unknown cache has nothing.
func (f *Finder) cached(sonames []string) []string {
	data, err := os.ReadFile(filepath.Join(f.Root, "etc/ld.so.cache"))
	if err != nil {
		return nil
	}
	out := pathsInCache(data, sonames)
	for i := range out {
		out[i] = filepath.Join(f.Root, out[i])
	}
	return out
}

const (
	cacheMagic  = "glibc-ld.so.cache1.1"
	cacheHeader = 48 // magic, number of entries, length of strings, padding
	cacheRow    = 24 // flags, key, value, OS version (4 bytes each), hwcap (8)
)

// flags of libraries for this architecture, in the second byte.
var cacheArch = map[string]uint32{"amd64": 0x0300, "arm64": 0x0a00}[runtime.GOARCH]

// pathsInCache finds libraries in the table of the newer format. Offsets of strings count
// from the magic, which an older table may precede. The cache of a common system has thousands
// of entries, so strings are made of those found alone.
func pathsInCache(data []byte, sonames []string) (out []string) {
	at := bytes.Index(data, []byte(cacheMagic))
	if at < 0 || len(data) < at+cacheHeader {
		return nil
	}
	data = data[at:]
	n := int(binary.NativeEndian.Uint32(data[len(cacheMagic):]))
	if n < 0 || n > (len(data)-cacheHeader)/cacheRow {
		return nil
	}
	for i := range n {
		row := data[cacheHeader+i*cacheRow:]
		flags := binary.NativeEndian.Uint32(row)
		if flags&0xff00 != cacheArch {
			continue
		}
		soname := cacheString(data, binary.NativeEndian.Uint32(row[4:]))
		if slices.ContainsFunc(sonames, func(s string) bool { return s == string(soname) }) {
			out = append(out, string(cacheString(data, binary.NativeEndian.Uint32(row[8:]))))
		}
	}
	return out
}

func cacheString(data []byte, offset uint32) []byte {
	if uint64(offset) >= uint64(len(data)) {
		return nil
	}
	s := data[offset:]
	if end := bytes.IndexByte(s, 0); end >= 0 {
		return s[:end]
	}
	return nil
}
