package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"

	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// Verify reads a checkpoint directory completely and checks its sums and the
// structure of its files; of a bare safetensors file, the structure alone. It
// streams: its memory does not grow with the checkpoint.
func Verify(ctx context.Context, fsys FS, path string) error {
	info, err := fsys.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		_, err := entries(fsys, path)
		return err
	}
	m, err := readManifest(fsys, path)
	if err != nil {
		return err
	}
	for _, file := range m.tensorFiles() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := verifyFile(fsys, filepath.Join(path, file), m.Files[file]); err != nil {
			return err
		}
	}
	return nil
}

func verifyFile(fsys FS, path string, want File) error {
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case n != want.Size:
		return sizeError(path, n, want)
	case hex.EncodeToString(sum.Sum(nil)) != want.SHA256:
		return fmt.Errorf("%s: %w", filepath.Base(path), ErrChecksum)
	}
	if _, err := safetensors.ReadHeader(f, n); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), safetensors.PickleAt(path, err))
	}
	return nil
}

func sizeError(path string, got int64, want File) error {
	return fmt.Errorf("%s has %d bytes, the manifest says %d: %w", filepath.Base(path), got, want.Size, ErrChecksum)
}
