package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/afero"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// Auto asks Store.Load for the newest checkpoint that can be used.
const Auto = "auto"

// Load reads "auto" from the store's own directory, and any other path as the function Load does.
func (s *Store) Load(ctx context.Context, path string) (*Snapshot, Report, error) {
	if err := s.wait(ctx); err != nil {
		return nil, Report{}, err
	}
	if path == Auto {
		path = s.dir
	}
	return Load(ctx, s.fs, path)
}

// Load reads a checkpoint and verifies all checksums. path is one of
//
//   - a directory of checkpoints, or a run's directory with one in it: the newest that can be used and is finite, by order of saving;
//   - one checkpoint's directory: this one, with a note if it is not finite, or an *UnusableError;
//   - a safetensors file, the index of several (model.safetensors.index.json), or a folder with
//     either: their tensors, with everything else of the snapshot zero.
//
// Names of model tensors come without the prefix they were saved with. The error is
// ErrNone if a directory has no checkpoint, and an *UnusableError if it has none that
// can be used.
func Load(ctx context.Context, fsys FS, path string) (*Snapshot, Report, error) {
	path, info, err := find(fsys, path)
	if err != nil {
		return nil, Report{}, err
	}
	if !info.IsDir() {
		return loadBare(fsys, path, info.Size())
	}
	dir, single := resolve(fsys, path)
	if single {
		return loadOne(ctx, fsys, dir)
	}
	if file := weightsIn(fsys, dir); file != "" {
		return Load(ctx, fsys, file)
	}
	return loadNewest(ctx, fsys, dir)
}

func isDir(fsys FS, path string) bool {
	ok, err := afero.IsDir(fsys, path)
	return ok && err == nil
}

func exists(fsys FS, path string) bool {
	_, err := fsys.Stat(path)
	return err == nil
}

// Unusable returns an *UnusableError of one path, for an intact checkpoint that does
// not fit its use.
func Unusable(path string, reason error) error {
	return &UnusableError{Path: path, Skipped: []Skip{{path, reason}}}
}

// Find checks whether a path has anything that Load could read, without reading it. The error is an *UnusableError; it matches
// fs.ErrNotExist where the path is not there, and ErrNone where a directory
// holds no checkpoint.
func Find(fsys FS, path string) error {
	path, info, err := find(fsys, path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		if err := safetensors.RefusePickle(fsys, path); err != nil {
			return Unusable(path, err)
		}
		return nil
	}
	dir, single := resolve(fsys, path)
	if single || weightsIn(fsys, dir) != "" {
		return nil
	}
	good, broken, err := scan(fsys, dir)
	if err == nil && len(good)+len(broken) == 0 {
		err = ErrNone
	}
	if err != nil {
		return Unusable(dir, err)
	}
	return nil
}

// resolve turns a directory into that of one checkpoint, or of several.
func resolve(fsys FS, path string) (dir string, single bool) {
	if inner := filepath.Join(path, "checkpoints"); isDir(fsys, inner) {
		path = inner
	}
	_, named := parseName(filepath.Base(path))
	return path, named || exists(fsys, filepath.Join(path, ManifestFile))
}

// find also tries the temporary name that a checkpoint has while it is being replaced.
func find(fsys FS, path string) (string, fs.FileInfo, error) {
	info, cause := fsys.Stat(path)
	if cause == nil {
		return path, info, nil
	}
	names, err := listNames(fsys, filepath.Dir(path))
	if err != nil || !errors.Is(cause, fs.ErrNotExist) {
		return "", nil, Unusable(path, cause)
	}
	for _, n := range names {
		if n.kind != replaced || dirName(n.step) != filepath.Base(path) {
			continue
		}
		other := n.path(filepath.Dir(path))
		if info, err := fsys.Stat(other); err == nil {
			return other, info, nil
		}
	}
	return "", nil, Unusable(path, cause)
}

func loadBare(fsys FS, path string, size int64) (*Snapshot, Report, error) {
	r := Report{Path: path, Notes: []string{"weights only: the file holds no optimizer state and no position"}}
	if strings.HasSuffix(path, indexSuffix) {
		tensors, err := readSharded(fsys, path)
		if err != nil {
			return nil, Report{}, Unusable(path, err)
		}
		return &Snapshot{Model: tensors}, r, nil
	}
	if err := safetensors.RefusePickle(fsys, path); err != nil {
		return nil, Report{}, Unusable(path, err)
	}
	b, err := readFile(fsys, path, size)
	if err != nil {
		return nil, Report{}, Unusable(path, err)
	}
	tensors, meta, err := safetensors.Read(b)
	if err != nil {
		return nil, Report{}, Unusable(path, err)
	}
	return &Snapshot{Model: tensors, CreatedBy: meta["created_by"]}, r, nil
}

func loadOne(ctx context.Context, fsys FS, path string) (*Snapshot, Report, error) {
	snap, err := read(ctx, fsys, path)
	if err != nil {
		return nil, Report{}, Unusable(path, err)
	}
	r := Report{Path: path}
	if first := FirstNonFinite(snap.Model); first != "" {
		r.Notes = append(r.Notes, (&NonFiniteError{first}).Error())
	}
	return snap, r, nil
}

func loadNewest(ctx context.Context, fsys FS, dir string) (*Snapshot, Report, error) {
	candidates, broken, err := scan(fsys, dir)
	if err != nil {
		return nil, Report{}, Unusable(dir, err)
	}
	var r Report
	for _, c := range candidates {
		snap, err := read(ctx, fsys, c.path)
		if ctx.Err() != nil {
			return nil, r, ctx.Err()
		}
		if err == nil {
			err = finiteModel(snap)
		}
		if err != nil {
			r.Skipped = append(r.Skipped, Skip{c.path, err})
			continue
		}
		r.Path = c.path
		r.addBroken(broken, c.manifest.Step)
		return snap, r, nil
	}
	r.addBroken(broken, -1)
	if len(r.Skipped) == 0 {
		return nil, r, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	return nil, r, &UnusableError{Path: dir, Skipped: r.Skipped}
}

// finiteModel checks the tensors, because manifests of earlier versions do not record
// it.
func finiteModel(s *Snapshot) error {
	if first := FirstNonFinite(s.Model); first != "" {
		return &NonFiniteError{first}
	}
	return nil
}

// Newest is the newest checkpoint of a directory, or of a run's directory, that Load would use: it
// was read completely and is intact. ErrNone says that there is none.
func Newest(ctx context.Context, fsys FS, path string) (Info, error) {
	dir, _ := resolve(fsys, path)
	candidates, _, err := scan(fsys, dir)
	if err != nil {
		return Info{}, Unusable(dir, err)
	}
	for _, c := range candidates {
		if c.manifest.NonFinite != "" {
			continue
		}
		err := Verify(ctx, fsys, c.path)
		if ctx.Err() != nil {
			return Info{}, ctx.Err()
		}
		if err == nil {
			return Info{Path: c.path, Manifest: c.manifest, Bytes: c.manifest.size()}, nil
		}
	}
	return Info{}, fmt.Errorf("%s: %w", dir, ErrNone)
}

// addBroken reports the checkpoints without a readable manifest; those of
// earlier steps would not have been chosen anyway.
func (r *Report) addBroken(broken []found, step int) {
	for _, b := range broken {
		if b.step >= step {
			r.Skipped = append(r.Skipped, Skip{b.path, b.err})
		}
	}
}

type found struct {
	name
	path     string
	manifest Manifest
	err      error
}

// scan finds the checkpoints of a directory, the newest first, and apart from
// them those whose manifest cannot be read.
func scan(fsys FS, dir string) (good, broken []found, err error) {
	names, err := listNames(fsys, dir)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range names {
		if n.kind == temporary {
			continue
		}
		f := found{name: n, path: n.path(dir)}
		if f.manifest, f.err = readManifest(fsys, f.path); f.err != nil {
			broken = append(broken, f)
			continue
		}
		good = append(good, f)
	}
	slices.SortFunc(good, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.manifest.Save, a.manifest.Save), cmp.Compare(b.step, a.step), cmp.Compare(a.kind, b.kind))
	})
	slices.SortFunc(broken, func(a, b found) int { return cmp.Compare(b.step, a.step) })
	return good, broken, nil
}

func readManifest(fsys FS, dir string) (Manifest, error) {
	path := filepath.Join(dir, ManifestFile)
	info, err := fsys.Stat(path)
	if err != nil {
		return Manifest{}, err
	}
	b, err := readFile(fsys, path, info.Size())
	if err != nil {
		return Manifest{}, err
	}
	return decodeManifest(b)
}

// read loads one checkpoint directory and verifies it on the way.
func read(ctx context.Context, fsys FS, dir string) (*Snapshot, error) {
	m, err := readManifest(fsys, dir)
	if err != nil {
		return nil, err
	}
	snap := m.snapshot()
	if snap.Model, err = readTensors(ctx, fsys, dir, ModelFile, m); err != nil {
		return nil, err
	}
	if snap.Optimizer, err = readTensors(ctx, fsys, dir, OptimizerFile, m); err != nil {
		return nil, err
	}
	if _, ok := m.Files[CompressionFile]; ok {
		if snap.Compression, err = readTensors(ctx, fsys, dir, CompressionFile, m); err != nil {
			return nil, err
		}
	}
	for i := range snap.Model {
		snap.Model[i].Name = strings.TrimPrefix(snap.Model[i].Name, m.Prefix)
	}
	return snap, nil
}

func readTensors(ctx context.Context, fsys FS, dir, file string, m Manifest) ([]tensor.Named, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, err := readVerified(fsys, filepath.Join(dir, file), m.Files[file])
	if err != nil {
		return nil, err
	}
	tensors, _, err := safetensors.Read(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return tensors, nil
}

// readVerified compares sizes before it allocates anything.
func readVerified(fsys FS, path string, want File) ([]byte, error) {
	info, err := fsys.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() != want.Size {
		return nil, sizeError(path, info.Size(), want)
	}
	b, err := readFile(fsys, path, want.Size)
	if err != nil {
		return nil, err
	}
	if hexSum(b) != want.SHA256 {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), ErrChecksum)
	}
	return b, nil
}
