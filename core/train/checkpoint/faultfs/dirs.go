package faultfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Mkdir makes one directory.
func (f *FS) Mkdir(name string, perm os.FileMode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mkdir(name, perm)
}

func (f *FS) mkdir(name string, perm os.FileMode) error {
	if err := f.enter("mkdir", name); err != nil {
		return pathErr("mkdir", name, err)
	}
	d, base, err := f.parent(name)
	if err == nil && d.entries[base] != nil {
		err = fs.ErrExist
	}
	if err != nil {
		return pathErr("mkdir", name, err)
	}
	n := newDir(perm)
	d.change(func(m map[string]*inode) { m[base] = n })
	return nil
}

// MkdirAll makes a directory and those above it.
func (f *FS) MkdirAll(name string, perm os.FileMode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	parts := split(name)
	for i := range parts {
		p := "/" + strings.Join(parts[:i+1], "/")
		if n, err := f.find(p); err == nil && n.dir {
			continue
		}
		if err := f.mkdir(p, perm); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes a file or an empty directory.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.remove(name)
}

func (f *FS) remove(name string) error {
	if err := f.enter("remove", name); err != nil {
		return pathErr("remove", name, err)
	}
	n, err := f.find(name)
	if err == nil && len(n.entries) > 0 {
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return pathErr("remove", name, err)
	}
	d, base, err := f.parent(name)
	if err != nil {
		return pathErr("remove", name, err)
	}
	d.change(func(m map[string]*inode) { delete(m, base) })
	return nil
}

// RemoveAll removes a tree, one operation per entry. A missing path is not an error.
func (f *FS) RemoveAll(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.removeAll(name)
}

func (f *FS) removeAll(name string) error {
	n, err := f.find(name)
	if errors.Is(err, fs.ErrNotExist) && !f.crashed {
		return nil
	}
	if err == nil {
		for _, base := range sortedNames(n) {
			if err := f.removeAll(path.Join(name, base)); err != nil {
				return err
			}
		}
	}
	return f.remove(name)
}

func sortedNames(n *inode) []string {
	var names []string
	for base := range n.entries {
		names = append(names, base)
	}
	slices.Sort(names)
	return names
}

// Rename moves within one directory, atomically. Like Linux it refuses to
// replace a directory that is not empty, or a directory by a file.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter("rename", from); err != nil {
		return pathErr("rename", from, err)
	}
	if err := f.rename(from, to); err != nil {
		return pathErr("rename", from, err)
	}
	return nil
}

func (f *FS) rename(from, to string) error {
	n, err := f.find(from)
	if err != nil {
		return err
	}
	d, a, err := f.parent(from)
	if err != nil {
		return err
	}
	d2, b, err := f.parent(to)
	if err != nil {
		return err
	}
	old := d.entries[b]
	switch {
	case d != d2:
		return syscall.EXDEV // atomic over two directories is more than this model promises
	case old == nil:
	case old.dir && !n.dir:
		return syscall.EISDIR
	case !old.dir && n.dir:
		return syscall.ENOTDIR
	case len(old.entries) > 0:
		return syscall.ENOTEMPTY
	}
	d.change(func(m map[string]*inode) {
		delete(m, a)
		m[b] = n
	})
	return nil
}

// Stat describes a path.
func (f *FS) Stat(name string) (os.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter("stat", name); err != nil {
		return nil, pathErr("stat", name, err)
	}
	n, err := f.find(name)
	if err != nil {
		return nil, pathErr("stat", name, err)
	}
	return info{n, path.Base(name), int64(len(n.data))}, nil
}

// Chmod does nothing; permissions are not part of the model.
func (f *FS) Chmod(string, os.FileMode) error { return nil }

// Chown does nothing.
func (f *FS) Chown(string, int, int) error { return nil }

// Chtimes does nothing.
func (f *FS) Chtimes(string, time.Time, time.Time) error { return nil }

type info struct {
	node *inode
	name string
	size int64
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() os.FileMode  { return i.node.mode }
func (i info) ModTime() time.Time { return i.node.time }
func (i info) IsDir() bool        { return i.node.dir }
func (i info) Sys() any           { return nil }
