package faultfs

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/afero"
)

// ErrCrashed is what every operation returns from the crash on.
var ErrCrashed = errors.New("faultfs: the process is dead")

// Op is one operation, as a Fault sees it.
type Op struct {
	N    int    // counts from 1
	Name string // "open", "create", "write", "sync", "syncdir", "rename", "remove", "mkdir", "stat", "read", "readdir", …
	Path string
}

// Fault decides about an operation: nil lets it pass, ErrCrashed ends the
// process in it, any other error makes it fail alone. A write that fails or
// crashes leaves the first half of its bytes.
type Fault func(Op) error

// FS implements afero.Fs and checkpoint.FS.
type FS struct {
	mu      sync.Mutex
	root    *inode
	fault   Fault
	ops     int
	crashed bool
	space   int // bytes that may still be written; negative: no limit
	locks   map[string]bool
}

// New is an empty file system without faults.
func New() *FS { return with(newDir(0o755)) }

func with(root *inode) *FS { return &FS{root: root, space: -1, locks: map[string]bool{}} }

// Inject sets the fault and restarts the count.
func (f *FS) Inject(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.ops = fault, 0
}

// Ops is the number of operations since New or Inject.
func (f *FS) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// SetSpace lets n more bytes be written before ENOSPC; negative: no limit.
func (f *FS) SetSpace(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.space = n
}

// CrashAt ends the process in operation n.
func CrashAt(n int) Fault { return at(n, ErrCrashed) }

// FailAt makes operation n fail with err.
func FailAt(n int, err error) Fault { return at(n, err) }

func at(n int, err error) Fault {
	return func(op Op) error {
		if op.N == n {
			return err
		}
		return nil
	}
}

// Kill is the file system after the process died and the kernel lived on. The
// old one must not be used any more.
func (f *FS) Kill() *FS { return with(f.root) }

// PowerLoss is a copy of the file system after the machine died: nothing that
// was not synced, or with seed ≠ 0 a random part of it.
func (f *FS) PowerLoss(seed uint64) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	var rnd *rand.Rand
	if seed != 0 {
		rnd = rand.New(rand.NewPCG(seed, 0))
	}
	return with(f.root.survivor(rnd, map[*inode]*inode{}))
}

// enter counts an operation and asks the fault about it. The lock is held.
func (f *FS) enter(name, p string) error {
	if f.crashed {
		return ErrCrashed
	}
	f.ops++
	if f.fault == nil {
		return nil
	}
	err := f.fault(Op{f.ops, name, p})
	f.crashed = errors.Is(err, ErrCrashed)
	return err
}

func pathErr(op, p string, err error) error { return &fs.PathError{Op: op, Path: p, Err: err} }

func split(p string) []string {
	p = strings.Trim(path.Clean("/"+p), "/")
	if p == "" {
		return nil
	}
	return strings.Split(p, "/")
}

func (f *FS) find(p string) (*inode, error) {
	n := f.root
	for _, part := range split(p) {
		if !n.dir {
			return nil, syscall.ENOTDIR
		}
		child, ok := n.entries[part]
		if !ok {
			return nil, fs.ErrNotExist
		}
		n = child
	}
	return n, nil
}

// parent finds the directory that holds p, and p's name in it.
func (f *FS) parent(p string) (*inode, string, error) {
	parts := split(p)
	if len(parts) == 0 {
		return nil, "", syscall.EINVAL
	}
	d, err := f.find(strings.Join(parts[:len(parts)-1], "/"))
	if err == nil && !d.dir {
		err = syscall.ENOTDIR
	}
	return d, parts[len(parts)-1], err
}

// Name names the file system.
func (f *FS) Name() string { return "faultfs" }

// Create opens a file for writing, empty.
func (f *FS) Create(name string) (afero.File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// Open opens a file or directory for reading.
func (f *FS) Open(name string) (afero.File, error) { return f.OpenFile(name, os.O_RDONLY, 0) }

// OpenFile opens as os.OpenFile does.
func (f *FS) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	op := "open"
	if flag&os.O_CREATE != 0 {
		op = "create"
	}
	if err := f.enter(op, name); err != nil {
		return nil, pathErr(op, name, err)
	}
	n, err := f.open(name, flag, perm)
	if err != nil {
		return nil, pathErr(op, name, err)
	}
	return &file{fs: f, node: n, name: name, flag: flag}, nil
}

func (f *FS) open(name string, flag int, perm os.FileMode) (*inode, error) {
	n, err := f.find(name)
	switch {
	case err == nil && flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, fs.ErrExist
	case err == nil && n.dir && flag&(os.O_WRONLY|os.O_RDWR) != 0:
		return nil, syscall.EISDIR
	case err == nil:
		if flag&os.O_TRUNC != 0 {
			n.data = nil
		}
		return n, nil
	case !errors.Is(err, fs.ErrNotExist) || flag&os.O_CREATE == 0:
		return nil, err
	}
	d, base, err := f.parent(name)
	if err != nil {
		return nil, err
	}
	n = newFile(perm)
	n.time = time.Now()
	d.change(func(m map[string]*inode) { m[base] = n })
	return n, nil
}

// SyncDir makes a directory's entries durable.
func (f *FS) SyncDir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.enter("syncdir", name)
	if err != nil {
		return pathErr("sync", name, err)
	}
	d, err := f.find(name)
	if err == nil && !d.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathErr("sync", name, err)
	}
	d.sync()
	return nil
}

// Lock takes a lock that ends with unlock, Kill or PowerLoss.
func (f *FS) Lock(name string) (func() error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter("lock", name); err != nil {
		return nil, pathErr("lock", name, err)
	}
	if f.locks[name] {
		return nil, pathErr("lock", name, syscall.EWOULDBLOCK)
	}
	f.locks[name] = true
	return func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.locks, name)
		return nil
	}, nil
}

var _ afero.Fs = (*FS)(nil)
