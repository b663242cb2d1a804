package imagefolder

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	imagekernel "github.com/trainctl/trainctl/core/engine/kernel/image"
)

// differences counts bytes by how many levels they are off.
type differences [256]int

func (d *differences) mean() float64 {
	sum, n := 0, 0
	for off, k := range d {
		sum, n = sum+off*k, n+k
	}
	return float64(sum) / float64(n)
}

func (d *differences) most() (off int) {
	for i, k := range d {
		if k > 0 {
			off = i
		}
	}
	return off
}

// levelsOff decodes a file and compares it with the pixels that lie beside it.
func levelsOff(t *testing.T, path string) *differences {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(strings.TrimSuffix(path, ".jpg") + ".rgb")
	if err != nil {
		t.Fatal(err)
	}
	img, err := decodeImage(file)
	if err != nil {
		t.Fatal(path, err)
	}
	got := make([]byte, len(want)/3*imagekernel.PixelBytes)
	pack(got, img, img.Bounds())
	d := new(differences)
	for i, b := range want {
		off := int(got[i/3*imagekernel.PixelBytes+i%3]) - int(b)
		d[max(off, -off)]++
	}
	return d
}

// Random images of every kind are within 3 levels of what torchvision decodes.
func TestJPEGsAgainstTorchvision(t *testing.T) {
	dir := os.Getenv("TRAINCTL_JPEGS")
	if dir == "" {
		t.Skip("TRAINCTL_JPEGS is not the folder of images that testdata/randomjpegs.py writes, which needs torchvision")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jpg"))
	if err != nil || len(files) == 0 {
		t.Fatal("no images in ", dir, err)
	}
	all := map[string]*differences{}
	images := map[string]int{}
	for _, path := range files {
		_, kind, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".jpg"), "-")
		if all[kind] == nil {
			all[kind] = new(differences)
		}
		images[kind]++
		for off, n := range levelsOff(t, path) {
			all[kind][off] += n
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		d := all[kind]
		t.Logf("%-28s %4d images  mean %.4f  most %d  of 3 levels %d", kind, images[kind], d.mean(), d.most(), d[3])
		if d.most() > 3 {
			t.Errorf("%s: %d levels off", kind, d.most())
		}
	}
}
