package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"
)

// LatestFile holds the name of the newest checkpoint's directory.
const LatestFile = "latest"

const lockName = ".lock"

// Store writes the checkpoints of one directory. Its methods are called from
// one goroutine.
type Store struct {
	fs      FS
	dir     string
	cfg     Config
	unlock  func() error
	onSaved func(Saved)
	now     func() time.Time

	saves int   // made in this directory so far
	best  *Best // among the checkpoints of this directory
	tries int   // names temporary directories

	busy   chan error // result of the write in progress; nil: none
	buffer Snapshot   // what it writes from
}

// Saved describes a checkpoint that became durable.
type Saved struct {
	Step  int
	Path  string
	Bytes int64
	Took  time.Duration // from Save's copy to durability
	Best  bool

	NonFinite string // the first tensor that is not finite: the checkpoint does not count as good; "": none
}

// Open creates dir if needed, locks it against other writers and removes what dead
// writers left behind. The error is a *LockedError when another run
// writes there.
func Open(fsys FS, dir string, cfg Config) (*Store, error) {
	if err := cfg.Problems().Err(); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("checkpoint: %w; fix: make the run directory writable, or choose another with --run-dir or [run] dir", err)
	}
	if err := syncAbove(fsys, dir); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	unlock, err := fsys.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	s := &Store{fs: fsys, dir: dir, cfg: cfg, unlock: unlock, now: time.Now}
	if err := s.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("checkpoint: %w", err), unlock())
	}
	return s, nil
}

// TakeOver is Open for a process that continues the run of another process, which was lost and may
// be frozen: TakeOver ignores its lock. The other process must not begin another save.
func TakeOver(fsys FS, dir string, cfg Config) (*Store, error) {
	if err := fsys.Remove(filepath.Join(dir, lockName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return Open(fsys, dir, cfg)
}

// syncAbove makes dir itself durable, and the directories that lead to it.
// Higher ones may belong to another run; they were there before this one.
func syncAbove(fsys FS, dir string) error {
	dir = filepath.Dir(dir)
	err := fsys.SyncDir(dir)
	for above := filepath.Dir(dir); above != dir; above = filepath.Dir(above) {
		if fsys.SyncDir(above) != nil {
			break
		}
		dir = above
	}
	return err
}

// OnSaved sets a function to be called whenever a checkpoint became durable; it
// is set before the first Save. In async mode it runs on the goroutine that writes.
func (s *Store) OnSaved(f func(Saved)) { s.onSaved = f }

// Best returns the best checkpoint of the directory by keep_best, nil if there is none.
// Do not call it during a write.
func (s *Store) Best() *Best { return s.best }

// Save makes a checkpoint durable and returns its path. In async mode it returns once
// the snapshot is copied; the error of the write is returned by the next Save, which
// still starts its own write, or by Close. A failed write leaves all earlier
// checkpoints unchanged. If Save returns both a path and an error, the checkpoint was
// taken, and an earlier async write or the removal of old checkpoints failed.
func (s *Store) Save(ctx context.Context, snap *Snapshot) (string, error) {
	before := s.wait(ctx)
	if err := ctx.Err(); err != nil {
		return "", errors.Join(err, before)
	}
	start := s.now()
	path := filepath.Join(s.dir, dirName(snap.Step))
	if !s.cfg.Async {
		durable, err := s.write(ctx, snap, start)
		if !durable {
			path = ""
		}
		return path, err
	}
	s.buffer.copyFrom(snap)
	done := make(chan error, 1)
	s.busy = done
	go func() {
		_, err := s.write(context.WithoutCancel(ctx), &s.buffer, start)
		done <- err
	}()
	return path, before
}

// wait for the write in progress and return its error. When ctx ends first the
// write stays in progress.
func (s *Store) wait(ctx context.Context) error {
	if s.busy == nil {
		return nil
	}
	select {
	case err := <-s.busy:
		s.busy = nil
		return err
	case <-ctx.Done():
		return nil
	}
}

// Wait blocks until the write in progress, if any, is durable, and returns its
// error. When ctx ends first it returns that error and the write continues.
func (s *Store) Wait(ctx context.Context) error {
	if err := s.wait(ctx); err != nil || s.busy == nil {
		return err
	}
	return ctx.Err()
}

// Settle waits for the write in progress and reads the checkpoint of a step back from
// the file system. It returns nil if the checkpoint is intact and finite, else an error
// with the reason.
func (s *Store) Settle(ctx context.Context, step int) error {
	before := s.Wait(ctx)
	path := filepath.Join(s.dir, dirName(step))
	err := Verify(ctx, s.fs, path)
	switch {
	case err != nil && before != nil:
		return before
	case err != nil:
		return err
	}
	m, err := readManifest(s.fs, path)
	if err == nil && m.NonFinite != "" {
		err = &NonFiniteError{m.NonFinite}
	}
	return err
}

// Close waits for the write in progress, unlocks the directory and returns the error of
// the write.
func (s *Store) Close() error {
	unlock := s.unlock
	s.unlock = func() error { return nil }
	return errors.Join(s.wait(context.Background()), unlock())
}

// recover cleans up after a dead writer, and reads the state of the directory from the
// manifests.
func (s *Store) recover() error {
	names, err := s.list()
	if err != nil {
		return err
	}
	for _, n := range names {
		switch {
		case n.kind == temporary:
			err = s.fs.RemoveAll(n.path(s.dir))
		case n.kind == replaced:
			err = s.restore(n)
		}
		if err != nil {
			return err
		}
	}
	names, err = s.list()
	if err != nil {
		return err
	}
	for _, n := range names {
		m, err := readManifest(s.fs, n.path(s.dir))
		if err != nil && !broken(err) {
			return err
		}
		if err == nil {
			s.saves = max(s.saves, m.Save)
			s.best = bestAfter(s.best, m, s.cfg)
		}
	}
	return nil
}

// restore handles a checkpoint that was being replaced by one of the same step: it
// removes the old one if the new one is intact, and else restores the old one.
func (s *Store) restore(old name) error {
	current := filepath.Join(s.dir, dirName(old.step))
	err := Verify(context.Background(), s.fs, current)
	if err == nil {
		return s.fs.RemoveAll(old.path(s.dir))
	}
	if !broken(err) {
		return err
	}
	if err := Verify(context.Background(), s.fs, old.path(s.dir)); err != nil {
		return nil // neither is whole: leave both to be looked at
	}
	if err := s.fs.RemoveAll(current); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := s.fs.Rename(old.path(s.dir), current); err != nil {
		return err
	}
	return s.fs.SyncDir(s.dir)
}

// bestAfter is the best checkpoint once m counts as well; of equals the earlier step.
func bestAfter(best *Best, m Manifest, cfg Config) *Best {
	v, ok := m.Metrics[cfg.KeepBest]
	value := float64(v)
	if !ok || m.NonFinite != "" || !cfg.Improves(value, m.Step, best) {
		return best
	}
	return &Best{Metric: cfg.KeepBest, Value: value, Step: m.Step}
}

// Improves reports whether a value of the metric that keep_best names makes the
// checkpoint of a step the best; of equals it is the earlier step.
func (c Config) Improves(value float64, step int, best *Best) bool {
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return false
	case best == nil:
		return true
	case value == best.Value:
		return step <= best.Step
	}
	return (value < best.Value) == c.lowerIsBetter()
}
