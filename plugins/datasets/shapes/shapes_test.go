package shapes

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// label is the class of an image, which is drawn first.
func (s Stream) label(index int) int {
	r := s.source(index)
	return r.Below(len(Names))
}

// Image i of a stream never changes while Version stays.
func TestImagesAreFixed(t *testing.T) {
	h := sha256.New()
	var image [bytes]byte
	for _, s := range []Stream{Train, Test} {
		for i := range 50 {
			if got := s.Draw(i, image[:]); got != s.label(i) {
				t.Fatalf("image %d is of class %d, its first draw is %d", i, got, s.label(i))
			}
			h.Write(image[:])
		}
	}
	const want = "ccac87bbc14217ec3e17d80c48c994700ba809adb77eb2c99942933c176cc4d5"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("the images changed: %s; if that is meant, raise Version", got)
	}
}

func TestClassesAreBalanced(t *testing.T) {
	var count [10]int
	for i := range 10000 {
		count[Train.label(i)]++
	}
	for class, n := range count {
		if n < 850 || n > 1150 {
			t.Errorf("%d of 10000 images are of class %s", n, Names[class])
		}
	}
}

// Every shape has an inside and an outside, and no two are the same.
func TestShapesDiffer(t *testing.T) {
	seen := map[string]int{}
	for class := range Names {
		var picture []byte
		for i := range Size * Size {
			bit := byte('.')
			if inside(class, i%Size-16, i/Size-16, 9) {
				bit = '#'
			}
			picture = append(picture, bit)
		}
		if other, twice := seen[string(picture)]; twice {
			t.Errorf("%s and %s look the same", Names[class], Names[other])
		}
		seen[string(picture)] = class
	}
}
