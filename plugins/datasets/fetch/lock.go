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

// Lock lets one process at a time download to dir, since local ranks start together
// and need the same files. It waits until the context ends; the error then names the
// owner. After reports that another owner finished while we waited: a file that it
// could not get is not worth a second attempt. An owner that died has not finished.
// The file has the owner's pid for people; the lock itself belongs to the open
// descriptor, so it ends when its owner does. On a file system that is not the
// operating system's, and on systems without such locks, it covers only this process.
func Lock(ctx context.Context, fs afero.Fs, dir string) (unlock func(), after bool, err error) {
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return nil, false, fmt.Errorf("cannot create the folder to download to: %w", err)
	}
	path := filepath.Join(dir, lockName)
	leave, after, err := enter(ctx, path)
	if err != nil {
		return nil, false, err
	}
	f, waited, err := waitLock(ctx, fs, path)
	if err != nil {
		leave()
		return nil, false, err
	}
	return func() { _ = fs.Remove(path); _ = f.Close(); leave() }, after || waited, nil
}

func waitLock(ctx context.Context, fs afero.Fs, path string) (f afero.File, after bool, err error) {
	for {
		f, orphaned, err := tryLock(fs, path)
		if err != nil {
			return nil, false, fmt.Errorf("cannot lock %s: %w", path, err)
		}
		if f != nil {
			return f, after && !orphaned, nil
		}
		after = true
		if err := pause(ctx, retryEvery); err != nil {
			return nil, false, busy(fs, path, err)
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

// tryLock returns no file and no error if another process has the lock. Orphaned
// reports that the previous owner died: it left its file behind.
func tryLock(fs afero.Fs, path string) (f afero.File, orphaned bool, err error) {
	f, err = fs.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, false, err
	}
	held, err := lockFile(fs, f, path)
	if err != nil || !held {
		_ = f.Close()
		return nil, false, err
	}
	if info, err := f.Stat(); err == nil {
		orphaned = info.Size() > 0
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	}
	return f, orphaned, nil
}

// lockFile locks the open file and checks that it is still the one at path: the
// previous owner removes it before unlocking.
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

// inside holds one token per lock file for this process, which may serve several
// ranks.
var inside sync.Map

func enter(ctx context.Context, path string) (leave func(), after bool, err error) {
	v, _ := inside.LoadOrStore(path, make(chan struct{}, 1))
	token := v.(chan struct{})
	leave = func() { <-token }
	select {
	case token <- struct{}{}:
		return leave, false, nil
	default:
	}
	select {
	case token <- struct{}{}:
		return leave, true, nil
	case <-ctx.Done():
		return nil, false, fmt.Errorf("another rank is downloading (%s): %w", path, context.Cause(ctx))
	}
}
