// Package checkpoint saves and loads runs.
package checkpoint

import (
	"context"
	"errors"
	"time"
)

// Store writes and reads the checkpoints of one run directory.
type Store struct{}

// Saved describes a checkpoint that became durable.
type Saved struct {
	Step  int
	Path  string
	Bytes int64
	Took  time.Duration
	Best  bool
}

// Open prepares dir, the run's checkpoints directory.
func Open(fsys FS, dir string, cfg Config) (*Store, error) { return nil, errTodo }

// OnSaved sets a function that is called after each checkpoint became durable; with async it runs on the writer's goroutine.
func (s *Store) OnSaved(f func(Saved)) {}

// Save writes a checkpoint and returns its path.
func (s *Store) Save(ctx context.Context, snap *Snapshot) (string, error) { return "", errTodo }

// Load reads "auto" (the newest usable one), a checkpoint directory, or a bare model.safetensors.
func (s *Store) Load(ctx context.Context, path string) (*Snapshot, Report, error) {
	return nil, Report{}, errTodo
}

// Load reads a checkpoint without a store: a checkpoint directory, a directory of checkpoints, or a bare safetensors file.
func Load(ctx context.Context, fsys FS, path string) (*Snapshot, Report, error) {
	return nil, Report{}, errTodo
}

// List gives the checkpoints of the store, the newest first.
func List(fsys FS, dir string) ([]Info, error) { return nil, errTodo }

// Inspect describes one checkpoint or safetensors file.
func Inspect(fsys FS, path string) (Info, error) { return Info{}, errTodo }

// Verify reads a checkpoint completely and checks every sum.
func Verify(ctx context.Context, fsys FS, path string) error { return errTodo }

// Close waits for the write in progress and returns its error.
func (s *Store) Close() error { return nil }

// Manifest is manifest.json.
type Manifest struct{}

var errTodo = errors.New("not there yet")
