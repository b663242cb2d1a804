package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// write makes snap durable, then removes old checkpoints. durable reports whether the
// checkpoint was saved despite an error.
func (s *Store) write(ctx context.Context, snap *Snapshot, start time.Time) (durable bool, err error) {
	m, bytes, err := s.publish(ctx, snap)
	if err != nil {
		return false, fmt.Errorf("checkpoint of step %d: %w", snap.Step, err)
	}
	if s.onSaved != nil {
		s.onSaved(Saved{
			Step: snap.Step, Path: filepath.Join(s.dir, dirName(snap.Step)), Bytes: bytes, Took: s.now().Sub(start),
			Best: m.Best != nil && m.Best.Step == snap.Step, NonFinite: m.NonFinite,
		})
	}
	if err := s.retain(ctx, m); err != nil {
		return true, fmt.Errorf("checkpoint of step %d is saved, old ones could not be removed: %w", snap.Step, err)
	}
	return true, nil
}

// publish writes a temporary directory and renames it.
func (s *Store) publish(ctx context.Context, snap *Snapshot) (Manifest, int64, error) {
	final := filepath.Join(s.dir, dirName(snap.Step))
	tmp := final + s.suffix("tmp")
	m, size, err := s.writeDir(ctx, tmp, snap)
	if err == nil && m.NonFinite != "" {
		err = s.spare(final, m)
	}
	if err == nil {
		err = s.rename(tmp, final)
	}
	if err != nil {
		_ = s.fs.RemoveAll(tmp) // Open removes what this cannot
		return m, 0, err
	}
	s.best = m.Best
	if m.NonFinite != "" {
		return m, size, nil // latest still names the last good one
	}
	return m, size, s.pointLatest(filepath.Base(final))
}

// spare prevents a finite checkpoint from being replaced by one of the same step that
// is not finite.
func (s *Store) spare(path string, by Manifest) error {
	if m, err := readManifest(s.fs, path); err == nil && m.NonFinite == "" {
		return fmt.Errorf("the finite checkpoint of this step is kept: %w", &NonFiniteError{by.NonFinite})
	}
	return nil
}

func (s *Store) writeDir(ctx context.Context, dir string, snap *Snapshot) (Manifest, int64, error) {
	m := snap.manifest()
	if err := s.fs.Mkdir(dir, 0o755); err != nil {
		return m, 0, err
	}
	s.saves++
	m.Save, m.CreatedAt, m.Prefix = s.saves, s.now().UTC(), s.cfg.Prefix
	m.NonFinite = FirstNonFinite(snap.Model)
	m.Best = bestAfter(s.best, m, s.cfg)
	for _, part := range []struct {
		file    string
		tensors []tensor.Named
	}{{ModelFile, prefixed(snap.Model, s.cfg.Prefix)}, {OptimizerFile, snap.Optimizer}, {CompressionFile, snap.Compression}, {AverageFile, prefixed(snap.Average, s.cfg.Prefix)}} {
		if (part.file == CompressionFile || part.file == AverageFile) && len(part.tensors) == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return m, 0, err
		}
		metadata := map[string]string{"format": "pt"}
		if part.file == ModelFile || part.file == AverageFile {
			for name, first := range snap.Aliases {
				metadata[s.cfg.Prefix+name] = s.cfg.Prefix + first
			}
		}
		f, err := s.writeTensors(filepath.Join(dir, part.file), part.tensors, metadata)
		if err != nil {
			return m, 0, err
		}
		m.Files[part.file] = f
	}
	text, err := m.encode()
	if err != nil {
		return m, 0, err
	}
	if err := s.writeFile(filepath.Join(dir, ManifestFile), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}); err != nil {
		return m, 0, err
	}
	return m, m.size() + int64(len(text)), s.fs.SyncDir(dir)
}

func (m Manifest) size() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

func prefixed(tensors []tensor.Named, prefix string) []tensor.Named {
	out := make([]tensor.Named, len(tensors))
	for i, t := range tensors {
		out[i] = tensor.Named{Name: prefix + t.Name, Tensor: t.Tensor}
	}
	return out
}

func (s *Store) writeTensors(path string, tensors []tensor.Named, metadata map[string]string) (File, error) {
	sum := sha256.New()
	var size counter
	err := s.writeFile(path, func(w io.Writer) error {
		return safetensors.Write(io.MultiWriter(w, sum, &size), tensors, metadata)
	})
	return File{Size: int64(size), SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// writeFile creates a file, which must be new, and makes its content durable.
func (s *Store) writeFile(path string, content func(io.Writer) error) error {
	f, err := s.fs.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	err = content(f)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// rename gives the durable directory tmp its final name. A checkpoint that
// has this name already stays readable under another one until the new one is
// durable in its place.
func (s *Store) rename(tmp, final string) error {
	old := final + s.suffix("old")
	err := s.fs.Rename(final, old)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	replaces := err == nil
	if err := s.fs.Rename(tmp, final); err != nil {
		if replaces {
			_ = s.fs.Rename(old, final) // loaders and Open also know the old name
		}
		return err
	}
	return s.fs.SyncDir(s.dir)
}

func (s *Store) pointLatest(base string) error {
	latest := filepath.Join(s.dir, LatestFile)
	tmp := latest + s.suffix("tmp")
	err := s.writeFile(tmp, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, base)
		return err
	})
	if err == nil {
		err = s.fs.Rename(tmp, latest)
	}
	if err != nil {
		_ = s.fs.Remove(tmp) // Open removes what this cannot
		return err
	}
	return s.fs.SyncDir(s.dir)
}
