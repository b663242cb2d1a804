package checkpoint

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/afero"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

func shard(t *testing.T, path string, names ...string) {
	t.Helper()
	f, err := os.Create(path)
	check(t, err)
	var tensors []tensor.Named
	for i, name := range names {
		x := tensor.New(tensor.F32, 1)
		x.F32()[0] = float32(i + 1)
		tensors = append(tensors, tensor.Named{Name: name, Tensor: x})
	}
	check(t, safetensors.Write(f, tensors, map[string]string{"format": "pt"}))
	check(t, f.Close())
}

// A model of several files is read by its index, or by the folder with it.
func TestLoadSharded(t *testing.T) {
	const one, two = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
	for _, c := range []struct {
		name, index, want string
		second            []string
	}{
		{"whole", fmt.Sprintf(`{"metadata":{"total_size":12},"weight_map":{"a":%q,"b":%q,"c":%q}}`, one, one, two), "", []string{"c"}},
		{"missing tensor", fmt.Sprintf(`{"weight_map":{"a":%q,"b":%q,"c":%q}}`, one, one, two), `the index has the tensor "c" in ` + two + `, but it is not there`, []string{"d"}},
		{"twice", fmt.Sprintf(`{"weight_map":{"a":%q,"b":%q,"c":%q}}`, one, one, two), `the tensor "a" is in both ` + one + ` and ` + two, []string{"a", "c"}},
		{"outside", `{"weight_map":{"a":"../x.safetensors"}}`, `the index names "../x.safetensors", which is not a file in the same folder`, []string{"c"}},
		{"missing file", `{"weight_map":{"a":"gone.safetensors"}}`, "gone.safetensors: ", []string{"c"}},
		{"no index", `{}`, "it is not an index of safetensors files", []string{"c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			shard(t, filepath.Join(dir, one), "a", "b")
			shard(t, filepath.Join(dir, two), c.second...)
			check(t, os.WriteFile(filepath.Join(dir, indexFile), []byte(c.index), 0o644))
			for _, path := range []string{dir, filepath.Join(dir, indexFile)} {
				check(t, Find(OsFS(), path))
				snap, _, err := Load(t.Context(), OsFS(), path)
				if c.want != "" {
					if err == nil || !strings.Contains(err.Error(), c.want) {
						t.Errorf("%v, want %s", err, c.want)
					}
					continue
				}
				check(t, err)
				if names := namesOf(snap.Model); !slices.Equal(names, []string{"a", "b", "c"}) {
					t.Errorf("tensors %v", names)
				}
			}
		})
	}
}

// A folder with one file of weights is that file.
func TestLoadFolderOfOneFile(t *testing.T) {
	dir := t.TempDir()
	shard(t, filepath.Join(dir, ModelFile), "a")
	snap, _, err := Load(t.Context(), OsFS(), dir)
	check(t, err)
	if len(snap.Model) != 1 {
		t.Errorf("%d tensors", len(snap.Model))
	}
}

// The other names of tied tensors are in the metadata of the model's file, as
// safetensors.torch.save_model writes them.
func TestAliasesAreMetadata(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(OsFS(), dir, Config{Prefix: "module.", Every: "never"})
	check(t, err)
	snap := snapshot(1)
	snap.Aliases = map[string]string{"head.weight": snap.Model[0].Name}
	_, err = s.Save(t.Context(), snap)
	check(t, err)
	mustClose(t, s)
	info, err := Inspect(OsFS(), filepath.Join(dir, "step-1", ModelFile))
	check(t, err)
	want := map[string]string{"format": "pt", "module.head.weight": "module." + snap.Model[0].Name}
	if !maps.Equal(info.Metadata, want) {
		t.Errorf("metadata %v, want %v", info.Metadata, want)
	}
}

// Files of torch.save are refused as checkpoints and as weights, with the way to convert them.
func TestPicklesAreRefused(t *testing.T) {
	for name, head := range map[string]string{
		"zip": "PK\x03\x04\x00\x00\x08\x08archive/data.pklFB", "legacy": "\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.",
		"pickle.dump": "\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}",
	} {
		fs := OsFS()
		path := filepath.Join(t.TempDir(), "a b.pth")
		if err := afero.WriteFile(fs, path, []byte(head), 0o644); err != nil {
			t.Fatal(err)
		}
		_, _, loaded := Load(t.Context(), fs, path)
		for _, err := range []error{loaded, Find(fs, path)} {
			if !errors.As(err, new(*safetensors.PickleError)) || !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "torch.load("+strconv.Quote(path)+", ") || !strings.Contains(err.Error(), `a b.safetensors")`) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
