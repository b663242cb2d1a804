package mnist

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

// The small data set of these tests: 7 and 3 samples, pixel j of image i is i+j.
func images(n int) []byte {
	b := be(nil, 0x803, n, 28, 28)
	for i := range n {
		for j := range imageBytes {
			b = append(b, byte(i+j))
		}
	}
	return b
}

func labels(l ...byte) []byte { return append(be(nil, 0x801, len(l)), l...) }

func be(b []byte, numbers ...int) []byte {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	return b
}

func gz(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

func small() map[string][]byte {
	return map[string][]byte{
		fileNames[trainImages]: images(7), fileNames[trainLabels]: labels(0, 1, 2, 3, 4, 5, 9),
		fileNames[testImages]: images(3), fileNames[testLabels]: labels(7, 8, 9),
	}
}

func put(t *testing.T, fs afero.Fs, dir string, files map[string][]byte) {
	t.Helper()
	for name, b := range files {
		if err := afero.WriteFile(fs, filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func zippedFiles(files map[string][]byte) map[string][]byte {
	out := map[string][]byte{}
	for name, b := range files {
		out[name+".gz"] = gz(b)
	}
	return out
}

// open opens with the defaults of all options that are not given, and without
// the network unless `download` is set.
func open(t *testing.T, d *Dataset, given map[string]any) (sdk.DatasetSpec, error) {
	t.Helper()
	if _, ok := given["download"]; !ok {
		given["download"] = false
	}
	return sdktest.OpenDataset(t, d, given, nil)
}

func newDataset(fs afero.Fs, env string) *Dataset {
	d := New(fs)
	d.getenv = func(string) string { return env }
	d.caches = func() (string, error) { return "", errors.New("no home") }
	return d
}

func TestFindsEveryLayout(t *testing.T) {
	below := func(root, env string, dirs ...string) (places [][2]string) {
		for _, d := range dirs {
			places = append(places, [2]string{root + d, env})
		}
		return places
	}
	places := below("/r", "", "", "/MNIST/raw", "/raw")
	places = append(places, below("/e", "/e", "", "/mnist", "/MNIST", "/MNIST/raw", "/mnist/MNIST/raw")...)
	var prints []string
	for _, p := range places {
		dir, env := p[0], p[1]
		for kind, files := range map[string]map[string][]byte{"plain": small(), "gzip": zippedFiles(small())} {
			t.Run(dir+" "+kind, func(t *testing.T) {
				fs := afero.NewMemMapFs()
				put(t, fs, dir, files)
				spec, err := open(t, newDataset(fs, env), map[string]any{"root": "/r"})
				if err != nil {
					t.Fatal(err)
				}
				if spec.Source != SourceIDX || spec.TrainSamples != 7 || spec.TestSamples != 3 || spec.Notice != "" {
					t.Errorf("got %+v", spec)
				}
				prints = append(prints, spec.Fingerprint)
			})
		}
	}
	if slices.Sort(prints); len(slices.Compact(prints)) != 1 {
		t.Error("the fingerprint depends on the place")
	}
}

func TestFingerprintSeesEveryByte(t *testing.T) {
	print := func(change func(map[string][]byte)) string {
		fs, files := afero.NewMemMapFs(), small()
		change(files)
		put(t, fs, "/r", files)
		spec, err := open(t, newDataset(fs, ""), map[string]any{"root": "/r"})
		if err != nil {
			t.Fatal(err)
		}
		return spec.Fingerprint
	}
	same := print(func(map[string][]byte) {})
	for name, at := range map[string]int{fileNames[trainImages]: 1000, fileNames[trainLabels]: 9, fileNames[testImages]: 16, fileNames[testLabels]: 10} {
		if print(func(f map[string][]byte) { f[name][at] ^= 1 }) == same {
			t.Errorf("a changed byte of %s does not show", name)
		}
	}
}

func TestDamagedFilesStopTheSearch(t *testing.T) {
	cases := map[string]struct {
		file int
		with []byte
		want string
	}{
		"cut":             {trainImages, images(7)[:500], "train-images-idx3-ubyte: offset 500: truncated"},
		"trailing":        {testImages, append(images(3), 1), "t10k-images-idx3-ubyte: offset 2368: 1 bytes follow"},
		"magic":           {trainLabels, images(7), "train-labels-idx1-ubyte: offset 0: magic number"},
		"size of images":  {testImages, append(be(nil, 0x803, 3, 2, 2), make([]byte, 12)...), "t10k-images-idx3-ubyte: offset 8: images of 2×2 pixels"},
		"too few labels":  {testLabels, labels(1, 2), "t10k-labels-idx1-ubyte: offset 4: 2 labels for the 3 images"},
		"label too large": {testLabels, labels(1, 10, 2), "t10k-labels-idx1-ubyte: offset 9: label 10 of sample 1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			fs, files := afero.NewMemMapFs(), small()
			files[fileNames[c.file]] = c.with
			put(t, fs, "/r", files)
			put(t, fs, "/e", small())
			_, err := open(t, newDataset(fs, "/e"), map[string]any{"root": "/r", "fallback": "generated"})
			if err == nil || !strings.Contains(err.Error(), "/r/"+c.want) {
				t.Errorf("got %v; want %q", err, c.want)
			}
		})
	}
}

// Nothing is mapped: what happens to the files later does not reach a run.
func TestFilesMayShrinkAfterOpen(t *testing.T) {
	dir := t.TempDir()
	put(t, afero.NewOsFs(), dir, small())
	d := newDataset(afero.NewOsFs(), "")
	if _, err := open(t, d, map[string]any{"root": dir}); err != nil {
		t.Fatal(err)
	}
	for _, name := range fileNames {
		if err := os.Truncate(filepath.Join(dir, name), 1); err != nil {
			t.Fatal(err)
		}
	}
	got, err := fill(d, sdk.Train, 6)
	if err != nil || got[0] != float32(6)/255 || got[imageBytes] != 9 {
		t.Errorf("the first pixel is %v, the label %v, %v", got[0], got[imageBytes], err)
	}
}

func TestNothingFound(t *testing.T) {
	fs := afero.NewMemMapFs()
	part := small()
	delete(part, fileNames[testLabels])
	put(t, fs, "/r", part)
	_, err := open(t, newDataset(fs, "/e"), map[string]any{"root": "/r"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"/r: lacks t10k-labels-idx1-ubyte[.gz]", "/r/MNIST/raw: no such folder", "/e/mnist: no such folder",
		"download: switched off", `fallback = "generated"`, "$TRAINCTL_DATA", "mnist: found no data",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
}

func TestTheOtherDataSet(t *testing.T) {
	many := make([]byte, 60000)
	copy(many, mnist.first)
	files := small()
	files[fileNames[trainImages]] = append(be(nil, 0x803, 60000, 28, 28), make([]byte, 60000*imageBytes)...)
	files[fileNames[trainLabels]] = labels(many...)
	fs := afero.NewMemMapFs()
	put(t, fs, "/r", files)
	d := NewFashion(fs)
	d.getenv = func(string) string { return "/r" }
	if _, err := open(t, d, map[string]any{"root": "/r"}); err == nil || !strings.Contains(err.Error(), "/r contains MNIST, not Fashion-MNIST") {
		t.Errorf("as root: %v", err)
	}
	if _, err := open(t, d, map[string]any{"root": "/none"}); err == nil || !strings.Contains(err.Error(), "/r: contains MNIST") {
		t.Errorf("in the environment: %v", err)
	}
}

func TestGenerated(t *testing.T) {
	d := newDataset(afero.NewMemMapFs(), "")
	spec, err := open(t, d, map[string]any{"root": "/r", "fallback": "generated", "train_samples": 100})
	if err != nil {
		t.Fatal(err)
	}
	if spec.Source != SourceGenerated || !strings.Contains(spec.Notice, "NOT ON MNIST") || strings.Contains(spec.Notice, "%!") ||
		spec.TrainSamples != 100 || spec.TestSamples != 10000 {
		t.Errorf("got %+v", spec)
	}
	first, err := fill(d, sdk.Train, 7, 99, 7)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(first[:imageBytes], first[2*imageBytes:3*imageBytes]) {
		t.Error("an image differs from itself")
	}
}

func fill(d *Dataset, split sdk.Split, indices ...int64) ([]float32, error) {
	b := &sdk.Batch{Split: split, Indices: indices,
		Input: tensor.Aligned(len(indices) * imageBytes * 4), Target: tensor.Aligned(len(indices) * 4)}
	err := d.Fill(context.Background(), b)
	return append(slices.Clone(tensor.View[float32](b.Input)), float32s(b.Target)...), err
}

func float32s(target []byte) (f []float32) {
	for _, l := range tensor.View[int32](target) {
		f = append(f, float32(l))
	}
	return f
}

func TestPixels(t *testing.T) {
	for name, c := range map[string]struct {
		options map[string]any
		mean    float32
		std     float32
	}{
		"ToTensor":  {map[string]any{}, 0, 1},
		"Normalize": {map[string]any{"mean": []any{0.1307}, "std": []any{0.3081}}, 0.1307, 0.3081},
		"std alone": {map[string]any{"std": []any{0.5}}, 0, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			fs := afero.NewMemMapFs()
			put(t, fs, "/r", small())
			d := newDataset(fs, "")
			c.options["root"] = "/r"
			if _, err := open(t, d, c.options); err != nil {
				t.Fatal(err)
			}
			got, err := fill(d, sdk.Test, 2, 0)
			if err != nil {
				t.Fatal(err)
			}
			for j := range imageBytes {
				want := (float32(byte(2+j))/255 - c.mean) / c.std
				if math.Float32bits(got[j]) != math.Float32bits(want) {
					t.Fatalf("pixel %d is %v, want %v", j, got[j], want)
				}
			}
			if l := got[2*imageBytes:]; l[0] != 9 || l[1] != 7 {
				t.Errorf("labels %v", l)
			}
		})
	}
}

func TestBadOptions(t *testing.T) {
	for key, given := range map[string]map[string]any{
		"root":          {"root": ""},
		"mean":          {"mean": []any{0.1, 0.2, 0.3}},
		"std":           {"std": []any{0.0}},
		"mirrors":       {"mirrors": []any{"ftp://example.org/"}},
		"timeout":       {"timeout": "0s", "download": true},
		"train_samples": {"train_samples": 8, "root": "/r"},
		"test_samples":  {"test_samples": 4, "root": "/r"},
	} {
		t.Run(key, func(t *testing.T) {
			fs := afero.NewMemMapFs()
			put(t, fs, "/r", small())
			_, err := open(t, newDataset(fs, ""), given)
			if l := usererr.Problems(err); len(l) != 1 || l[0].Key != key || l[0].Help == "" {
				t.Errorf("got %v", err)
			}
		})
	}
}

// site serves the gzip files and gives the data set their sums.
func site(t *testing.T, d *Dataset) (url string, hits *atomic.Int64) {
	t.Helper()
	files := zippedFiles(small())
	for i, name := range fileNames {
		d.md5[i] = sumOf(files[name+".gz"])
	}
	hits = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		_, _ = w.Write(files[filepath.Base(r.URL.Path)])
	}))
	t.Cleanup(s.Close)
	return s.URL, hits
}

func TestDownloadByOneRankOfMany(t *testing.T) {
	fs, root := afero.NewOsFs(), filepath.Join(t.TempDir(), "data", "mnist")
	const ranks = 4
	var wg sync.WaitGroup
	var specs [ranks]sdk.DatasetSpec
	proto := newDataset(fs, "")
	url, hits := site(t, proto)
	for r := range ranks {
		wg.Go(func() {
			d := newDataset(fs, "")
			d.md5 = proto.md5
			spec, err := open(t, d, map[string]any{"root": root, "download": true, "mirrors": []any{url}})
			if err != nil {
				t.Error(err)
			}
			spec.ClassNames, spec.Input.Shape = nil, nil
			specs[r] = spec
		})
	}
	wg.Wait()
	if hits.Load() != fileCount {
		t.Errorf("%d requests for %d files", hits.Load(), fileCount)
	}
	for r := range ranks {
		if specs[r].Source != SourceDownload || specs[r].Fingerprint != specs[0].Fingerprint {
			t.Errorf("rank %d got %+v", r, specs[r])
		}
	}
}

func TestFailedDownloadFallsBack(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	given := map[string]any{"root": filepath.Join(t.TempDir(), "m"), "download": true, "mirrors": []any{s.URL}}
	_, err := open(t, newDataset(afero.NewOsFs(), ""), given)
	if err == nil || !strings.Contains(err.Error(), s.URL+"/train-images-idx3-ubyte.gz: the mirror answered 404") {
		t.Errorf("got %v", err)
	}
	given["fallback"] = "generated"
	spec, err := open(t, newDataset(afero.NewOsFs(), ""), given)
	if err != nil || spec.Source != SourceGenerated {
		t.Errorf("got %+v, %v", spec, err)
	}
}

func TestCanceledOpenDoesNotFallBack(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { cancel() }))
	defer s.Close()
	d := newDataset(afero.NewMemMapFs(), "")
	o, _ := sdk.CheckOptions("", d.Info().Options, map[string]any{"root": "/r", "mirrors": []any{s.URL}, "fallback": "generated"})
	if _, err := d.Open(ctx, sdk.DatasetRequest{Options: o}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestFillRefuses(t *testing.T) {
	d := newDataset(afero.NewMemMapFs(), "")
	if _, err := fill(d, sdk.Train, 0); !errors.Is(err, vision.ErrNotOpen) {
		t.Errorf("before Open: %v", err)
	}
	if _, err := open(t, d, map[string]any{"root": "/r", "fallback": "generated"}); err != nil {
		t.Fatal(err)
	}
	if _, err := fill(d, sdk.Test, 10000); err == nil {
		t.Error("an index outside was accepted")
	}
	if err := d.Fill(t.Context(), &sdk.Batch{Indices: []int64{0}, Input: make([]byte, 4), Target: make([]byte, 4)}); err == nil {
		t.Error("a short slot was accepted")
	}
}

func TestFillDoesNotAllocate(t *testing.T) {
	d := newDataset(afero.NewMemMapFs(), "")
	if _, err := open(t, d, map[string]any{"root": "/r", "fallback": "generated"}); err != nil {
		t.Fatal(err)
	}
	b := &sdk.Batch{Indices: []int64{1, 2, 3}, Input: tensor.Aligned(3 * imageBytes * 4), Target: tensor.Aligned(12)}
	ctx := t.Context()
	if n := testing.AllocsPerRun(10, func() { _ = d.Fill(ctx, b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// realMNIST is a folder with the real files beside the repository.
func realMNIST(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
	}
	folder := filepath.Join(filepath.Dir(dir), "shared", "mnist")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("the real MNIST is not beside the repository: %v", err)
	}
	return folder
}

func TestRealMNIST(t *testing.T) {
	root := realMNIST(t)
	d := newDataset(afero.NewOsFs(), "")
	spec, err := open(t, d, map[string]any{"root": root})
	if err != nil {
		t.Fatal(err)
	}
	if spec.Source != SourceIDX || spec.TrainSamples != 60000 || spec.TestSamples != 10000 {
		t.Errorf("got %+v", spec)
	}
	if got := d.splits[sdk.Train].labels[:5]; !slices.Equal(got, []byte{5, 0, 4, 1, 9}) {
		t.Errorf("labels start %v", got)
	}
	if got := d.splits[sdk.Test].labels[:5]; !slices.Equal(got, []byte{7, 2, 1, 0, 4}) {
		t.Errorf("test labels start %v", got)
	}
	var sum, squares float64
	train := d.splits[sdk.Train].images
	for _, p := range train {
		x := float64(p) / 255
		sum += x
		squares += x * x
	}
	mean := sum / float64(len(train))
	std := math.Sqrt(squares/float64(len(train)) - mean*mean)
	if math.Abs(mean-0.1307) > 1e-4 || math.Abs(std-0.3081) > 1e-4 {
		t.Errorf("pixels have mean %.5f and deviation %.5f, published are 0.1307 and 0.3081", mean, std)
	}
}

func BenchmarkOpenReal(b *testing.B) {
	root := realMNIST(b)
	for b.Loop() {
		d := New(afero.NewOsFs())
		o, _ := sdk.CheckOptions("", d.Info().Options, map[string]any{"root": root})
		if _, err := d.Open(b.Context(), sdk.DatasetRequest{Options: o}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFill(b *testing.B) {
	d := New(afero.NewMemMapFs())
	o, _ := sdk.CheckOptions("", d.Info().Options, map[string]any{"root": "/r", "download": false, "fallback": "generated"})
	if _, err := d.Open(b.Context(), sdk.DatasetRequest{Options: o}); err != nil {
		b.Fatal(err)
	}
	const n = 256
	batch := &sdk.Batch{Input: tensor.Aligned(n * imageBytes * 4), Target: tensor.Aligned(n * 4)}
	for i := range n {
		batch.Indices = append(batch.Indices, int64(i*37))
	}
	b.SetBytes(int64(len(batch.Input)))
	for b.Loop() {
		if err := d.Fill(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

func sumOf(b []byte) string {
	sum := md5.Sum(b)
	return hex.EncodeToString(sum[:])
}
