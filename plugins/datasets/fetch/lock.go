package fetch

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/afero"
)

const lockName = ".download.lock"

// Lock lets one process at a time download into dir: local ranks start
// together and want the same files. It waits until the context ends; the
// error then names the owner. The file holds the owner's pid for people, the
// lock itself belongs to the open descriptor, so that it ends with its owner
// however that died. On a file system that is not the operating system's, and
// where the system has no such locks, it covers this process alone.
func Lock(ctx context.Context, fs afero.Fs, dir string) (unlock func(), err error) {
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the folder to download to: %w", err)
	}
	path := filepath.Join(dir, lockName)
	leave, err := enter(ctx, path)
	if err != nil {
		return nil, err
	}
	for {
		f, err := tryLock(fs, path)
		if err != nil {
			leave()
			return nil, fmt.Errorf("cannot lock %s: %w", path, err)
		}
		if f != nil {
			return func() { _ = fs.Remove(path); _ = f.Close(); leave() }, nil
		}
		if err := pause(ctx, retryEvery); err != nil {
			leave()
			return nil, busy(fs, path, err)
		}
	}
}

const retryEvery = 50 * time.Millisecond

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// tryLock returns nil without an error when another process has the lock.
func tryLock(fs afero.Fs, path string) (afero.File, error) {
	f, err := fs.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	held, err := lockFile(fs, f, path)
	if err != nil || !held {
		_ = f.Close()
		return nil, err
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	}
	return f, nil
}

// lockFile locks the open file and makes sure that it is still the one at
// path: the previous owner removes it before letting go.
func lockFile(fs afero.Fs, f afero.File, path string) (bool, error) {
	osFile, ok := f.(*os.File)
	if !ok {
		return true, nil
	}
	if held, err := flock(osFile); err != nil || !held {
		return false, err
	}
	mine, err := osFile.Stat()
	if err != nil {
		return false, err
	}
	current, err := fs.Stat(path)
	return err == nil && os.SameFile(mine, current), nil
}

func busy(fs afero.Fs, path string, cause error) error {
	owner := "another process"
	if f, err := fs.Open(path); err == nil {
		defer f.Close()
		if b, _ := io.ReadAll(io.LimitReader(f, 32)); len(b) > 0 {
			owner = "process " + strings.TrimSpace(string(b))
		}
	}
	return fmt.Errorf("%s is downloading (%s): %w", owner, path, cause)
}

// inside holds one token per lock file for this process, where several ranks
// may be served by one.
var inside sync.Map

func enter(ctx context.Context, path string) (leave func(), err error) {
	v, _ := inside.LoadOrStore(path, make(chan struct{}, 1))
	token := v.(chan struct{})
	select {
	case token <- struct{}{}:
		return func() { <-token }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("another rank is downloading (%s): %w", path, context.Cause(ctx))
	}
}
