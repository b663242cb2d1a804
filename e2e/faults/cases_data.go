//go:build linux

package main

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/trainctl/trainctl/e2e/rig"
)

var idxFiles = []string{"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}

// idx is an IDX file of n images, or of n labels.
func idx(n int, images bool) []byte {
	if !images {
		b := binary.BigEndian.AppendUint32([]byte{0, 0, 8, 1}, uint32(n))
		for i := range n {
			b = append(b, byte(i%10))
		}
		return b
	}
	b := []byte{0, 0, 8, 3}
	for _, d := range []int{n, 28, 28} {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	for i := range n * 28 * 28 {
		b = append(b, byte(i*7))
	}
	return b
}

// writeIDX makes a data set of 640 and 32 digits.
func writeIDX(t rig.TB, dir string) {
	t.Helper()
	rig.Must(t, os.MkdirAll(dir, 0o755))
	for i, name := range idxFiles {
		n := 640
		if i > 1 {
			n = 32
		}
		rig.Must(t, os.WriteFile(filepath.Join(dir, name), idx(n, i%2 == 0), 0o644))
	}
}

func digits(more ...string) []string {
	return rig.Set(append([]string{"dataset.plugin=mnist", `dataset.options={root="digits", download=false, cache=false}`, `model={name="mlp", hidden=[16]}`}, more...)...)
}

func badIDX(t *trial) {
	p := newPlace(t)
	dir := filepath.Join(p.Dir, "digits")
	writeIDX(t, dir)
	p.Train(t, digits()...).Expect(t, 0)
	for name, c := range map[string]struct {
		file   int
		damage func(b []byte) []byte
		says   string
	}{
		"truncated":      {0, func(b []byte) []byte { return b[:len(b)-1000] }, `\d{3,}`},
		"only a header":  {0, func(b []byte) []byte { return b[:16] }, `\d+`},
		"empty":          {1, func([]byte) []byte { return nil }, ""},
		"wrong magic":    {0, func(b []byte) []byte { b[2] = 0x0d; return b }, ""},
		"trailing bytes": {1, func(b []byte) []byte { return append(b, 1, 2, 3) }, `\d+`},
		"label 77":       {1, func(b []byte) []byte { b[8+5] = 77; return b }, "77"},
		"huge count":     {0, func(b []byte) []byte { copy(b[4:], "\xff\xff\xff\xff"); return b }, ""},
	} {
		writeIDX(t, dir)
		path := filepath.Join(dir, idxFiles[c.file])
		b, err := os.ReadFile(path)
		rig.Must(t, err)
		rig.Must(t, os.WriteFile(path, c.damage(b), 0o644))
		r := p.Train(t, digits()...)
		if r.Code != 2 || strings.Contains(r.Stderr, "step 1") {
			t.Errorf("%s: exit code %d:\n%s", name, r.Code, r.Stderr)
		}
		r.Prints(t, idxFiles[c.file]).Matches(t, `offset|byte|magic|label|empty`, c.says)
	}
	t.saw("seven damages, each exit 2 with the file and the place in it")
}

func shrinkingData(t *trial) {
	p := newPlace(t)
	dir := filepath.Join(p.Dir, "digits")
	writeIDX(t, dir)
	r := p.Start(t, append([]string{"run", p.Config}, digits("train.epochs=1000000", "train.max_steps=3000", "train.eval_every=0", `checkpoint.every="never"`)...)...)
	p.WaitForSteps(t, r, 1, 5)
	for _, name := range idxFiles {
		rig.Must(t, os.Truncate(filepath.Join(dir, name), 16))
	}
	r.Wait(t).Expect(t, 0)
	t.saw("digits: exit 0, from memory")
	images := filepath.Join(p.Dir, "images")
	writeImages(t, images)
	r = p.Start(t, append([]string{"run", p.Config}, pictures("train.epochs=1000000", "train.eval_every=0", `checkpoint.every="never"`)...)...)
	p.WaitForSteps(t, r, 2, 2)
	files := rig.Glob(images, "train/*/*.png")
	for _, f := range files {
		rig.Must(t, os.Truncate(f, 40))
	}
	res := t.ended(r.Wait(t), 2)
	if !strings.Contains(res.Stderr, "train/") || !strings.Contains(res.Stderr, ".png") {
		t.Errorf("no file is named:\n%s", res.Stderr)
	}
	t.saw("images: the file is named")
}

// writeImages makes an image folder of two classes with 24 and 8 images.
func writeImages(t rig.TB, root string) {
	t.Helper()
	for class, shade := range []uint8{40, 200} {
		for split, n := range map[string]int{"train": 12, "val": 4} {
			dir := filepath.Join(root, split, fmt.Sprint("class", class))
			rig.Must(t, os.MkdirAll(dir, 0o755))
			for i := range n {
				img := image.NewRGBA(image.Rect(0, 0, 24, 24))
				for j := range 24 * 24 {
					img.Set(j%24, j/24, color.RGBA{shade, uint8(i * 5), uint8(j), 255})
				}
				var b bytes.Buffer
				rig.Must(t, png.Encode(&b, img))
				rig.Must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".png")), b.Bytes(), 0o644))
			}
		}
	}
}

func pictures(more ...string) []string {
	return rig.Set(append([]string{"dataset.plugin=imagefolder", `dataset.options={root="images", size=16}`, "train.per_rank_batch=4",
		`model.layers=[{type="flatten"}, {type="linear", out_features=2}]`}, more...)...)
}

func badImage(t *trial) {
	p := newPlace(t)
	images := filepath.Join(p.Dir, "images")
	writeImages(t, images)
	broken := filepath.Join(images, "train", "class1", "7.png")
	rig.Must(t, os.Truncate(broken, 60))
	r := p.Train(t, append(pictures(), "--max-restarts", "2")...)
	t.ended(r, 2).Prints(t, "class1/7.png").OneFailureBlock(t)
	if strings.Contains(r.Stderr, "restart 1") {
		t.Errorf("it was restarted:\n%s", r.Stderr)
	}
	r = p.Train(t, pictures(`dataset.options.corrupt="skip"`)...)
	t.ended(r, 0)
	var warned strings.Builder
	for _, log := range rig.Glob(p.RunDir(2), "logs/*.log") {
		warned.WriteString(rig.ReadFile(log))
	}
	if text := warned.String() + r.Stderr; !strings.Contains(text, "7.png") {
		t.Errorf("nothing says which image was skipped:\n%s", text)
	}
	t.saw("named and not restarted; with skip exit 0 and a warning with the name")
}

func badDownload(t *trial) {
	p := newPlace(t)
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/wrong/"):
			fmt.Fprint(w, strings.Repeat("these are not the bytes", 1000))
		case strings.HasPrefix(r.URL.Path, "/html/"):
			http.Redirect(w, r, "/login", http.StatusFound)
		case strings.HasPrefix(r.URL.Path, "/stall/"):
			w.Header().Set("Content-Length", "1000000")
			fmt.Fprint(w, "a beginning")
			w.(http.Flusher).Flush()
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		case strings.HasPrefix(r.URL.Path, "/good/"):
			http.ServeFile(w, r, filepath.Join(realDigits(), filepath.Base(r.URL.Path)))
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>please log in</html>")
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(stop) })
	mirrors := func(names ...string) string {
		for i := range names {
			names[i] = fmt.Sprintf("%q", server.URL+"/"+names[i]+"/")
		}
		return `dataset.options={root="digits", cache=false, mirrors=[` + strings.Join(names, ", ") + "]}"
	}
	args := rig.Set("dataset.plugin=mnist", `model={name="mlp", hidden=[16]}`, "train.max_steps=3", "train.eval_every=0", "dataset.timeout=80s")
	r := p.Train(t, append(args, rig.Set(mirrors("wrong", "html", "stall"))...)...)
	t.ended(r, 2).Prints(t, "/wrong/", "/html/", "/stall/")
	for _, left := range rig.Glob(filepath.Join(p.Dir, "digits"), "*ubyte*") {
		if !strings.HasSuffix(left, ".part") { // the beginning that stalled, to go on from
			t.Errorf("a bad file was kept: %s", left)
		}
	}
	t.saw("every mirror's reason told, nothing bad kept")
	if realDigits() == "" {
		t.saw("no mirror behind bad ones was tried: MNIST's own files are not here")
		return
	}
	p.Train(t, append(args, rig.Set(mirrors("wrong", "html", "good"))...)...).Expect(t, 0)
	t.saw("the good mirror behind two bad ones is used")
}

// realDigits is a folder with MNIST's own files, as the mirrors have them, ""
// without one.
func realDigits() string {
	root, err := rig.ModuleRoot()
	if err != nil {
		return ""
	}
	for _, dir := range []string{os.Getenv("TRAINCTL_DATA"), filepath.Join(root, "..", "shared", "mnist")} {
		b, err := os.ReadFile(filepath.Join(dir, "train-images-idx3-ubyte.gz"))
		if err == nil && fmt.Sprintf("%x", md5.Sum(b)) == "f68b3c2dcbeaaa9fbdd348bbdeb94873" {
			return dir
		}
	}
	return ""
}
