package cifar10

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/tensor"
)

// The small data set of these tests: files of 7 records; byte j of record i of
// file f is 31f+3i+j.
const small = 7

func file(f int) (b []byte) {
	for i := range small {
		b = append(b, byte((f+i)%len(classNames)))
		for j := range imageBytes {
			b = append(b, byte(31*f+3*i+j))
		}
	}
	return b
}

func put(t testing.TB, fs afero.Fs, path string, b []byte) {
	t.Helper()
	if err := afero.WriteFile(fs, path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func unpacked(t testing.TB, dir string) afero.Fs {
	t.Helper()
	fs := afero.NewMemMapFs()
	for i := range fileCount {
		put(t, fs, filepath.Join(dir, fileName(i)), file(i))
	}
	return fs
}

// packed is an archive of the files, in which a file may be replaced or, by
// nil, left out.
func packed(t *testing.T, replace map[int][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	add := func(name string, b []byte) {
		if err := w.WriteHeader(&tar.Header{Name: folder + "/" + name, Mode: 0o644, Size: int64(len(b))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	add("readme.html", []byte("hello"))
	for i := range fileCount {
		b, ok := replace[i]
		if !ok {
			b = file(i)
		}
		if b != nil {
			add(fileName(i), b)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func newDataset(fs afero.Fs, env string) *Dataset {
	d := New(fs)
	d.records, d.getenv = small, func(string) string { return env }
	return d
}

// open opens with the defaults of all options that are not given, and without
// the network unless `download` is set.
func open(t *testing.T, d *Dataset, given map[string]any) (sdk.DatasetSpec, error) {
	t.Helper()
	table := map[string]any{"root": "/r", "download": false}
	for k, v := range given {
		table[k] = v
	}
	return sdktest.OpenDataset(t, d, table, nil)
}

func fillOne(t *testing.T, d *Dataset, split sdk.Split, epoch int, index int64) ([]float32, int32) {
	t.Helper()
	b := sdk.Batch{Split: split, Epoch: epoch, Seed: 5, Indices: []int64{index}, Input: tensor.Aligned(4 * imageBytes), Target: tensor.Aligned(4)}
	if err := d.Fill(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return tensor.View[float32](b.Input), tensor.View[int32](b.Target)[0]
}

func TestFindsEveryLayout(t *testing.T) {
	prints := map[string]bool{}
	for dir, env := range map[string]string{
		"/r": "", "/r/" + folder: "", "/e": "/e", "/e/cifar10": "/e", "/e/CIFAR10/" + folder: "/e", "/e/cifar-10": "/e",
	} {
		zipped := afero.NewMemMapFs()
		put(t, zipped, filepath.Join(dir, archive), packed(t, nil))
		for kind, fs := range map[string]afero.Fs{"files": unpacked(t, dir), "archive": zipped} {
			d := newDataset(fs, env)
			spec, err := open(t, d, nil)
			if err != nil {
				t.Errorf("%s in %s: %v", kind, dir, err)
				continue
			}
			if spec.Source != SourceBinary || spec.TrainSamples != 5*small || spec.TestSamples != small || spec.Notice != "" {
				t.Errorf("%s in %s: %+v", kind, dir, spec)
			}
			prints[spec.Fingerprint] = true
			x, class := fillOne(t, d, sdk.Train, 0, 2*small+4) // record 4 of file 2
			if class != 6 || x[0] != float32(74)/255 || x[imageBytes-1] != float32((74+imageBytes-1)%256)/255 {
				t.Errorf("%s in %s: class %d, pixels %v … %v", kind, dir, class, x[0], x[imageBytes-1])
			}
		}
	}
	if len(prints) != 1 {
		t.Errorf("the same data has the fingerprints %v", prints)
	}
}

func TestDescribeMatchesOpen(t *testing.T) {
	d := newDataset(unpacked(t, "/r"), "")
	got, err := open(t, d, map[string]any{"train_samples": 9})
	if err != nil {
		t.Fatal(err)
	}
	o, _ := sdk.CheckOptions("", d.Info().Options, map[string]any{"root": "/none", "train_samples": 9})
	want, err := newDataset(afero.NewMemMapFs(), "").Describe(o)
	if err != nil {
		t.Fatal(err)
	}
	if got.TrainSamples != want.TrainSamples || got.TestSamples != want.TestSamples || !got.Input.Shape.Equal(want.Input.Shape) || got.Classes != want.Classes {
		t.Errorf("described %+v, opened %+v", want, got)
	}
}

// What is there and damaged is an error that names the file and the fix.
func TestDamage(t *testing.T) {
	bad := file(0)
	bad[3*recordBytes] = 10
	whole := packed(t, nil)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-6] ^= 1 // in gzip's checksum
	for name, c := range map[string]struct {
		path string
		b    []byte
		want string
	}{
		"short file":      {"/r/data_batch_1.bin", file(0)[:3*recordBytes], "/r/data_batch_1.bin: 9219 bytes, expected 7 records of 3073 bytes"},
		"class":           {"/r/data_batch_1.bin", bad, "offset 9219: class 10 of record 3 is not below 10; fetch " + archive + " again"},
		"cut archive":     {"/r/" + archive, whole[:len(whole)/2], "unexpected EOF; fetch " + archive + " again"},
		"archive's sum":   {"/r/" + archive, flipped, "checksum"},
		"no archive":      {"/r/" + archive, []byte("<html>"), "damaged or not complete"},
		"file left out":   {"/r/" + archive, packed(t, map[int][]byte{5: nil}), "it lacks test_batch.bin"},
		"file in archive": {"/r/" + archive, packed(t, map[int][]byte{0: bad}), archive + ": " + folder + "/data_batch_1.bin, offset 9219"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := afero.NewMemMapFs()
			if !strings.HasSuffix(c.path, archive) {
				fs = unpacked(t, "/r")
			}
			put(t, fs, c.path, c.b)
			_, err := open(t, newDataset(fs, ""), map[string]any{"fallback": "generated"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestNothingFoundNamesEveryPlace(t *testing.T) {
	fs := afero.NewMemMapFs()
	put(t, fs, "/r/"+pickleFolder+"/data_batch_1", []byte("pickle"))
	put(t, fs, "/r/data_batch_1.bin", file(0))
	_, err := open(t, newDataset(fs, "/e"), nil)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"/r: has the Python version of CIFAR-10, a pickle, which is not supported; the binary version, cifar-10-binary.tar.gz",
		"/r/" + folder + ": no such folder", "/e/cifar10: no such folder", "download: switched off", `fallback = "generated"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}

func TestTooManySamples(t *testing.T) {
	_, err := open(t, newDataset(unpacked(t, "/r"), ""), map[string]any{"test_samples": small + 1})
	if err == nil || !strings.Contains(err.Error(), "test_samples: 8 is more than the 7 samples of the data set") {
		t.Error(err)
	}
}

// Ranks that come together download once, all see the same source, and so does
// a later run, which finds the unpacked files.
func TestDownloads(t *testing.T) {
	content := packed(t, nil)
	var mu sync.Mutex
	served := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		served++
		mu.Unlock()
		if r.URL.Path != "/x/"+archive {
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = w.Write(content)
	}))
	defer server.Close()
	sum := md5.Sum(content)
	fs := afero.NewMemMapFs()
	try := func() {
		d := newDataset(fs, "")
		d.md5 = hex.EncodeToString(sum[:])
		spec, err := open(t, d, map[string]any{"download": true, "mirrors": []any{server.URL + "/x"}})
		if err != nil || spec.Source != SourceDownload || spec.TrainSamples != 5*small {
			t.Errorf("%+v, %v", spec, err)
		}
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(try)
	}
	wg.Wait()
	if err := fs.Remove("/r/" + archive); err != nil {
		t.Fatal(err)
	}
	try()
	if served != 1 {
		t.Errorf("%d downloads", served)
	}
}

func TestGeneratedWarns(t *testing.T) {
	d := newDataset(afero.NewMemMapFs(), "")
	spec, err := open(t, d, map[string]any{"fallback": "generated"})
	if err != nil {
		t.Fatal(err)
	}
	if spec.Source != SourceGenerated || !strings.Contains(spec.Notice, "GENERATED SHAPES, NOT ON CIFAR-10") || spec.ClassNames[0] != "disc" {
		t.Errorf("%+v", spec)
	}
}
