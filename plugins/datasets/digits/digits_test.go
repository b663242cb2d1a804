package digits

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

func draw(s Stream, index int) []byte {
	img := make([]byte, Pixels)
	s.Draw(index, img)
	return img
}

// TestSameBytesEverywhere must pass on every architecture: ranks on different
// machines draw the same data.
func TestSameBytesEverywhere(t *testing.T) {
	h := sha256.New()
	img := make([]byte, Pixels)
	for i := range 2000 {
		for _, s := range []Stream{Train, Test} {
			label := s.Draw(i, img)
			if label != s.Label(i) {
				t.Fatalf("image %d shows %d, Label says %d", i, label, s.Label(i))
			}
			h.Write(img)
			h.Write([]byte{byte(label)})
		}
	}
	const want = "e4405824c4414f02ce1d5f66bbbf67ef89aabd5b297d7df367e91519f2a628ce"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("the images changed: %s; if that is meant, raise Version and put the new hash here", got)
	}
}

func TestImagesDependOnTheIndexAlone(t *testing.T) {
	last := draw(Train, 59999)
	dirty := bytes.Repeat([]byte{0xff}, Pixels)
	Train.Draw(59999, dirty)
	if !bytes.Equal(last, dirty) {
		t.Error("what was in the memory before shows in the image")
	}
}

func TestNoImageTwice(t *testing.T) {
	seen := map[[32]byte]bool{}
	for _, s := range []Stream{Train, Test} {
		for i := range 3000 {
			sum := sha256.Sum256(draw(s, i))
			if seen[sum] {
				t.Fatalf("image %d of stream %x was there before", i, s)
			}
			seen[sum] = true
		}
	}
}

func TestEveryDigitIsThere(t *testing.T) {
	for _, s := range []Stream{Train, Test} {
		var count [10]int
		for i := range 10000 {
			count[s.Label(i)]++
		}
		for digit, n := range count {
			if n < 850 || n > 1150 {
				t.Errorf("stream %x: %d of 10000 images show %d", s, n, digit)
			}
		}
	}
}

// An image is ink on paper: mostly dark, with strokes, and in the frame.
func TestImagesHaveInk(t *testing.T) {
	for i := range 2000 {
		bright := 0
		for _, p := range draw(Train, i) {
			if p > 100 {
				bright++
			}
		}
		if bright < 15 || bright > Pixels/2 {
			t.Errorf("image %d has %d bright pixels", i, bright)
		}
	}
}

func TestGlyphsFit(t *testing.T) {
	for digit, variants := range glyphs {
		if len(variants) == 0 {
			t.Errorf("nobody can write %d", digit)
		}
		for _, g := range variants {
			for _, s := range g {
				if len(s) < 2 || len(s) > maxPoints {
					t.Errorf("a stroke of %d has %d points, want 2 to %d", digit, len(s), maxPoints)
				}
			}
		}
	}
}

// TestDump writes both streams as raw bytes, for a look at them and for
// testdata/accuracy.py.
func TestDump(t *testing.T) {
	dir := os.Getenv("DIGITS_DUMP")
	if dir == "" {
		t.Skip("set DIGITS_DUMP to a folder to write the images there")
	}
	for name, part := range map[string]struct {
		stream Stream
		n      int
	}{"train": {Train, 60000}, "test": {Test, 10000}} {
		images, labels := make([]byte, part.n*Pixels), make([]byte, part.n)
		for i := range part.n {
			labels[i] = byte(part.stream.Draw(i, images[i*Pixels:(i+1)*Pixels]))
		}
		for ending, b := range map[string][]byte{".images": images, ".labels": labels} {
			if err := os.WriteFile(filepath.Join(dir, name+ending), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func BenchmarkDraw(b *testing.B) {
	img := make([]byte, Pixels)
	b.SetBytes(Pixels)
	for i := 0; b.Loop(); i++ {
		Train.Draw(i, img)
	}
}
