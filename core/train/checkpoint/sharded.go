package checkpoint

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/afero"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// indexFile is what Hugging Face's libraries write beside a model of several
// safetensors files; it names the file of every tensor.
const (
	indexFile   = "model.safetensors.index.json"
	indexSuffix = ".index.json"
)

// weightsIn finds the weights in a folder that is not a checkpoint: an index, or one file. It
// returns "" if there is neither.
func weightsIn(fsys FS, dir string) string {
	for _, name := range []string{indexFile, ModelFile} {
		if path := filepath.Join(dir, name); exists(fsys, path) {
			return path
		}
	}
	return ""
}

// readSharded reads all files of an index, which must have the tensors that it names, each once.
func readSharded(fsys FS, path string) ([]tensor.Named, error) {
	text, err := afero.ReadFile(fsys, path)
	if err != nil {
		return nil, err
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &index); err != nil || len(index.WeightMap) == 0 {
		return nil, fmt.Errorf("it is not an index of safetensors files: want {\"weight_map\": {tensor: file}} (%v)", err)
	}
	from := map[string]string{}
	var all []tensor.Named
	for _, file := range slices.Compact(slices.Sorted(maps.Values(index.WeightMap))) {
		if !filepath.IsLocal(file) || strings.ContainsAny(file, `/\`) {
			return nil, fmt.Errorf("the index names %q, which is not a file in the same folder", file)
		}
		tensors, err := readShard(fsys, filepath.Join(filepath.Dir(path), file))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, t := range tensors {
			if other, twice := from[t.Name]; twice {
				return nil, fmt.Errorf("the tensor %q is in both %s and %s", t.Name, other, file)
			}
			from[t.Name] = file
		}
		all = append(all, tensors...)
	}
	for _, name := range slices.Sorted(maps.Keys(index.WeightMap)) {
		if file := index.WeightMap[name]; from[name] != file {
			return nil, fmt.Errorf("the index has the tensor %q in %s, but it is not there", name, file)
		}
	}
	return all, nil
}

func readShard(fsys FS, path string) ([]tensor.Named, error) {
	info, err := fsys.Stat(path)
	if err != nil {
		return nil, err
	}
	b, err := readFile(fsys, path, info.Size())
	if err != nil {
		return nil, err
	}
	tensors, _, err := safetensors.Read(b)
	return tensors, err
}
