package datasets

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// TestMain serves the data sets when the host starts this binary again, as
// trainctl does with its own.
func TestMain(m *testing.M) {
	if host.ServeBuiltin(hosted(), os.Args[1:]) {
		return
	}
	os.Exit(m.Run())
}

func hosted() (h []host.Builtin) {
	for _, b := range Builtins(afero.NewOsFs()) {
		h = append(h, host.Builtin{Kind: sdk.KindDataset, Name: b.Name, Plugin: sdk.Plugin{Dataset: b.New}})
	}
	return h
}

func TestBuiltinsHaveTheirNames(t *testing.T) {
	var names []string
	for _, b := range Builtins(afero.NewMemMapFs()) {
		names = append(names, b.Name)
		if got := b.New().Info().Name; got != b.Name {
			t.Errorf("%q says that it is %q", b.Name, got)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("%v is not in order", names)
	}
}

// The plugin processes of the tests. Under the race detector a process lingers
// for a second when it ends, unless the option says otherwise.
func testHost() *host.Host {
	return host.New(host.Options{Builtins: hosted(), SetEnv: []string{"GORACE=atexit_sleep_ms=0"}})
}

func generated(root string) map[string]any {
	return map[string]any{"root": root, "download": false, "fallback": "generated", "train_samples": 500, "test_samples": 100}
}

// images is a folder of 16 small pictures in two classes, and one to evaluate on.
func images(t *testing.T) string {
	t.Helper()
	root, fs := t.TempDir(), afero.NewOsFs()
	for i := range 17 {
		img := image.NewGray(image.Rect(0, 0, 20+i, 40-i))
		for j := range img.Pix {
			img.Pix[j] = byte(i * j)
		}
		var b bytes.Buffer
		if err := jpeg.Encode(&b, img, nil); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, "train", []string{"even", "odd"}[i%2], fmt.Sprintf("%d.jpg", i))
		if i == 16 {
			path = filepath.Join(root, "val", "odd", "1.jpeg")
		}
		if err := fs.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := afero.WriteFile(fs, path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// prose is a folder with two texts, of one and of several bytes for a character.
func prose(t *testing.T) string {
	t.Helper()
	root, fs := t.TempDir(), afero.NewOsFs()
	for name, line := range map[string]string{"a.txt": "The ranks add what they have.\n", "b.txt": "Zoë wartet – wie üblich.\n"} {
		if err := afero.WriteFile(fs, filepath.Join(root, name), bytes.Repeat([]byte(line), 60), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// tableFile is a CSV file of 90 samples in three classes.
func tableFile(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("a,b,y\n")
	for i := range 90 {
		fmt.Fprintf(&b, "%d,%d.5,%s\n", i, i*i%17, []string{"low", "middle", "high"}[i%3])
	}
	path := filepath.Join(t.TempDir(), "table.csv")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestContractThroughTheWire runs the data sets in processes of their own.
func TestContractThroughTheWire(t *testing.T) {
	t.Setenv("TRAINCTL_DATA", "")
	computed := map[string]any{"shape": []any{3, 9, 11}, "train_samples": 200, "test_samples": 70}
	drawn := generated(t.TempDir())
	drawn["augment"] = "standard"
	cases := []struct {
		name, plane string
		table       map[string]any
		refused     map[string]map[string]any
	}{
		{"mnist", "", generated(t.TempDir()), map[string]map[string]any{"std": {"std": []any{0.0}}}},
		{"cifar10", "", drawn, map[string]map[string]any{"augment": {"augment": "heavy"}}},
		{"imagefolder", "", map[string]any{"root": images(t), "size": 24, "randaugment": 2, "color_jitter": []any{0.4, 0.4, 0.4, 0.1}, "random_erasing": 0.5, "mixup": 0.2, "cutmix": 1.0}, map[string]map[string]any{"root": {"root": "/none"}}},
		{"synthetic", "", computed, map[string]map[string]any{"shape": {"shape": []any{1 << 20, 1 << 20}}}},
		{"csv", "", map[string]any{"train": tableFile(t), "test": tableFile(t), "targets": []any{"y"}, "normalize": "standard"}, map[string]map[string]any{"targets": {"targets": []any{"z"}}}},
		{"numpy", "", map[string]any{"inputs": "numpy/testdata/f4.npy", "targets": "numpy/testdata/y.npy"}, map[string]map[string]any{"inputs": {"inputs": "none.npy"}}},
		{"text", "", map[string]any{"files": []any{prose(t)}, "tokenizer": "chars", "context": 16, "validation": 0.25}, map[string]map[string]any{"files": {"files": []any{"/none"}}}},
		{"text", "inline", map[string]any{"context": 64, "validation": 0.97, "tokenizer": "chars"}, nil},
		{"synthetic", "inline", computed, nil}, // what a plugin without shared memory gets
	}
	for _, c := range cases {
		t.Run(c.name+c.plane, func(t *testing.T) {
			t.Setenv("TRAINCTL_DATA_PLANE", c.plane)
			sdktest.Dataset(t, sdktest.DatasetOptions{New: sdktest.DatasetPlugin(testHost(), c.name), Options: c.table, Refused: c.refused})
		})
	}
}

// BenchmarkBatch is one batch of digits from another process, drawn before.
func BenchmarkBatch(b *testing.B) {
	d, err := testHost().StartDataset(b.Context(), "mnist")
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close(context.Background())
	options, _ := sdk.CheckOptions("", d.Info().Options, generated(b.TempDir()))
	if _, err := d.Open(b.Context(), sdk.DatasetRequest{Options: options}); err != nil {
		b.Fatal(err)
	}
	indices := make([]int64, 64)
	if err := d.Prepare(1, len(indices)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := d.Request(0, sdk.Train, 0, 0, indices); err != nil {
			b.Fatal(err)
		}
		input, _, err := d.Wait(0)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(input)))
	}
}
