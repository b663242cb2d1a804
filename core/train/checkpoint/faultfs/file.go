package faultfs

import (
	"io"
	"os"
	"path"
	"syscall"

	"github.com/spf13/afero"
)

// file is an open file. Like a descriptor it outlives a rename of its name.
type file struct {
	fs     *FS
	node   *inode
	name   string
	flag   int
	pos    int64
	listed int
}

func (f *file) enter(op string) error {
	if err := f.fs.enter(op, f.name); err != nil {
		return pathErr(op, f.name, err)
	}
	return nil
}

func (f *file) Name() string { return f.name }

func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.enter("close")
}

func (f *file) Read(b []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n, err := f.read(b, f.pos)
	f.pos += int64(n)
	return n, err
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n, err := f.read(b, off)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

func (f *file) read(b []byte, off int64) (int, error) {
	if err := f.enter("read"); err != nil {
		return 0, err
	}
	if f.node.dir {
		return 0, pathErr("read", f.name, syscall.EISDIR)
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	return copy(b, f.node.data[off:]), nil
}

func (f *file) Seek(offset int64, whence int) (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += f.pos
	case io.SeekEnd:
		offset += int64(len(f.node.data))
	}
	if offset < 0 {
		return 0, pathErr("seek", f.name, syscall.EINVAL)
	}
	f.pos = offset
	return offset, nil
}

func (f *file) Write(b []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.flag&os.O_APPEND != 0 {
		f.pos = int64(len(f.node.data))
	}
	n, err := f.write(b, f.pos)
	f.pos += int64(n)
	return n, err
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.write(b, off)
}

func (f *file) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

func (f *file) write(b []byte, off int64) (int, error) {
	dead := f.fs.crashed
	err := f.enter("write")
	if dead {
		return 0, err
	}
	if f.flag&(os.O_WRONLY|os.O_RDWR) == 0 {
		return 0, pathErr("write", f.name, syscall.EBADF)
	}
	n := len(b)
	if err != nil {
		n /= 2
	}
	if s := f.fs.space; s >= 0 {
		if n > s {
			n, err = s, pathErr("write", f.name, syscall.ENOSPC)
		}
		f.fs.space -= n
	}
	f.put(b[:n], off)
	return n, err
}

func (f *file) put(b []byte, off int64) {
	d := f.node.data
	if grow := off + int64(len(b)) - int64(len(d)); grow > 0 {
		d = append(d, make([]byte, grow)...)
	}
	copy(d[off:], b)
	f.node.data = d
}

func (f *file) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.enter("truncate"); err != nil {
		return err
	}
	if size <= int64(len(f.node.data)) {
		f.node.data = f.node.data[:size:size]
		return nil
	}
	f.put(nil, size)
	return nil
}

func (f *file) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	op := "sync"
	if f.node.dir {
		op = "syncdir"
	}
	if err := f.enter(op); err != nil {
		return err
	}
	f.node.sync()
	return nil
}

func (f *file) Stat() (os.FileInfo, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.enter("stat"); err != nil {
		return nil, err
	}
	return info{f.node, path.Base(f.name), int64(len(f.node.data))}, nil
}

func (f *file) Readdir(count int) ([]os.FileInfo, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.enter("readdir"); err != nil {
		return nil, err
	}
	if !f.node.dir {
		return nil, pathErr("readdir", f.name, syscall.ENOTDIR)
	}
	var out []os.FileInfo
	names := sortedNames(f.node)
	for _, base := range names[min(f.listed, len(names)):] {
		if count > 0 && len(out) == count {
			break
		}
		n := f.node.entries[base]
		out = append(out, info{n, base, int64(len(n.data))})
	}
	f.listed += len(out)
	if count > 0 && len(out) == 0 {
		return nil, io.EOF
	}
	return out, nil
}

func (f *file) Readdirnames(n int) ([]string, error) {
	infos, err := f.Readdir(n)
	names := make([]string, len(infos))
	for i, in := range infos {
		names[i] = in.Name()
	}
	return names, err
}

var _ afero.File = (*file)(nil)
