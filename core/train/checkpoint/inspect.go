package checkpoint

import (
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/openfile"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// Info describes a checkpoint, or a bare safetensors file, without its tensors' bytes.
type Info struct {
	Path      string
	Manifest  Manifest // zero for a bare file
	Bytes     int64
	Latest    bool                // the file latest names it
	Err       error               // why the manifest, or for Inspect a header, cannot be read
	Model     []safetensors.Entry // Inspect only: names as they are in the file
	Optimizer []safetensors.Entry // Inspect only

	Metadata map[string]string // of a bare file's header; Inspect only
}

// List returns the checkpoints of a directory, newest first, followed by those whose
// manifest cannot be read. It checks only the checksums of the manifests.
func List(fsys FS, dir string) ([]Info, error) {
	good, broken, err := scan(fsys, dir)
	if err != nil {
		return nil, err
	}
	latest, _ := afero.ReadFile(fsys, filepath.Join(dir, LatestFile)) // missing: none is the latest
	var out []Info
	for _, f := range append(good, broken...) {
		out = append(out, Info{
			Path: f.path, Manifest: f.manifest, Bytes: f.manifest.size(), Err: f.err,
			Latest: f.base == strings.TrimSpace(string(latest)),
		})
	}
	return out, nil
}

// Inspect reads the manifest and the headers of one checkpoint directory, or
// the header of one safetensors file.
func Inspect(fsys FS, path string) (Info, error) {
	info, err := fsys.Stat(path)
	if err != nil {
		return Info{}, err
	}
	out := Info{Path: path}
	if !info.IsDir() {
		out.Bytes = info.Size()
		h, err := header(fsys, path)
		out.Model, out.Metadata = h.Entries, h.Metadata
		return out, err
	}
	if out.Manifest, err = readManifest(fsys, path); err != nil {
		return out, err
	}
	out.Bytes = out.Manifest.size()
	if out.Model, err = entries(fsys, filepath.Join(path, ModelFile)); err != nil {
		return out, err
	}
	out.Optimizer, err = entries(fsys, filepath.Join(path, OptimizerFile))
	return out, err
}

func entries(fsys FS, path string) ([]safetensors.Entry, error) {
	h, err := header(fsys, path)
	return h.Entries, err
}

func header(fsys FS, path string) (safetensors.Header, error) {
	f, info, err := openfile.WithInfo(fsys, path)
	if err != nil {
		return safetensors.Header{}, err
	}
	defer f.Close()
	h, err := safetensors.ReadHeader(f, info.Size())
	return h, safetensors.PickleAt(path, err)
}
