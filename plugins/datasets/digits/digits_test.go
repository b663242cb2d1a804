package digits

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"
)

// TestDump writes both streams as raw bytes for a look at them elsewhere.
func TestDump(t *testing.T) {
	dir := os.Getenv("DIGITS_DUMP")
	if dir == "" {
		t.Skip("set DIGITS_DUMP to a folder to write the images there")
	}
	for name, s := range map[string]struct {
		Stream
		n int
	}{"train": {Train, 60000}, "test": {Test, 10000}} {
		images, labels := make([]byte, s.n*Pixels), make([]byte, s.n)
		for i := range s.n {
			labels[i] = byte(s.Draw(i, images[i*Pixels:(i+1)*Pixels]))
		}
		if err := os.WriteFile(dir+"/"+name+".images", images, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+name+".labels", labels, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

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

func BenchmarkDraw(b *testing.B) {
	img := make([]byte, Pixels)
	for i := range b.N {
		Train.Draw(i, img)
	}
}
