package text

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/spf13/afero"
	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/base/openfile"
)

// mapped is the content of a file, in memory that the kernel fills when it is accessed. The file
// must not be cut short while it is mapped.
type mapped struct {
	path string
	data []byte
	heap bool // data is not a mapping
}

func mapFile(fsys afero.Fs, path string) (mapped, error) {
	m := mapped{path: path}
	f, info, err := openfile.WithInfo(fsys, path)
	if err != nil {
		return m, err
	}
	defer f.Close()
	if !info.Mode().IsRegular() {
		return m, fmt.Errorf("%s is not a file", path)
	}
	if info.Size() == 0 {
		return m, fmt.Errorf("%s is empty; fix: put text into it, or leave it out of the option files", path)
	}
	file, ok := f.(*os.File)
	if !ok {
		m.heap = true
		m.data, err = afero.ReadAll(f)
		return m, err
	}
	m.data, err = unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return m, fmt.Errorf("%s: mapping %d bytes: %w", path, info.Size(), err)
	}
	return m, nil
}

// text is the content as a string, without a copy: it must not be used after close.
func (m *mapped) text() string { return unsafe.String(unsafe.SliceData(m.data), len(m.data)) }

func (m *mapped) close() error {
	data := m.data
	m.data = nil
	if m.heap || data == nil {
		return nil
	}
	return unix.Munmap(data)
}
