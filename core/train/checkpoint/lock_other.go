//go:build !unix

package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// lockFile creates the file exclusively. A process that is killed leaves it
// behind; the message then names a process that no longer exists.
func lockFile(path string) (func() error, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		holder, _ := os.ReadFile(path) // empty while the holder writes it
		pid, _ := strconv.Atoi(strings.TrimSpace(string(holder)))
		return nil, &LockedError{Path: path, PID: pid}
	}
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintln(f, os.Getpid())
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(path)
		return nil, err
	}
	return func() error { return os.Remove(path) }, nil
}
