package tempdir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	prefix = "trainctl-sockets-"
	plugin = "plugin-dir" // how go-plugin names the directory of one plugin
	digits = "1234567890" // as many as os.MkdirTemp may append
	limit  = 103          // bytes in a socket's path
)

// Home is the directory for temporary files, or /tmp if its path is so long that a
// socket's path would not fit (batch systems create such directories).
func Home() string { return home(os.TempDir()) }

func home(tmp string) string {
	const name = "/" + prefix + digits + "/" + plugin + digits + "/plugin" + digits
	if len(tmp)+len(name) <= limit {
		return tmp
	}
	return "/tmp"
}

// Dir is a directory for the sockets of all plugins of a run. It is locked while
// its owner lives.
type Dir struct {
	Path string
	lock *os.File
}

// New creates a directory. It removes those left by owners that were killed.
func New() (*Dir, error) {
	removeStale(Home())
	for range 100 {
		path, err := os.MkdirTemp(Home(), prefix)
		if err != nil {
			return nil, err
		}
		// Before it is locked, another process's New may take it for a dead owner's.
		if l, err := lock(path); err == nil && there(l, path) {
			return &Dir{Path: path, lock: l}, nil
		} else if err == nil {
			_ = l.Close()
		}
	}
	return nil, errors.New("sockets: 100 new directories were removed by other processes before they could be locked")
}

// there reports whether path is still the open file.
func there(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// Shared is a folder in a directory of sockets for what plugins share. It is removed with the directory,
// and exists if a plugin has created it.
func Shared(dir string) string { return filepath.Join(dir, plugin+"-shared") }

// Close removes the directory, with what killed processes have left in it. The caller
// has waited for the other processes.
func (d *Dir) Close() error {
	err := remove(d.Path)
	_ = d.lock.Close() // nothing was written
	return err
}

// Leave removes the parent of dir if dir, a plugin's own directory that is already
// removed, was the last one and the owner is dead.
func Leave(dir string) {
	if parent := filepath.Dir(dir); strings.HasPrefix(filepath.Base(parent), prefix) {
		removeAbandoned(parent, os.Remove)
	}
}

func removeStale(home string) {
	dirs, _ := filepath.Glob(filepath.Join(home, prefix+"*")) // the pattern is sound
	for _, dir := range dirs {
		removeAbandoned(dir, remove)
	}
}

// removeAbandoned removes a directory that no process has locked. Failures do not
// matter: it belongs to another user, or another process removed it first.
func removeAbandoned(dir string, remove func(string) error) {
	if l, err := lock(dir); err == nil {
		_ = remove(dir)
		_ = l.Close()
	}
}

// remove removes a directory of sockets, and nothing else in it.
func remove(dir string) error {
	plugins, _ := filepath.Glob(filepath.Join(dir, plugin+"*")) // the pattern is sound
	var errs []error
	for _, p := range plugins {
		errs = append(errs, os.RemoveAll(p))
	}
	return errors.Join(append(errs, os.Remove(dir))...)
}

// lock locks a directory, or fails if another process has locked it.
func lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
	}
	return f, nil
}
