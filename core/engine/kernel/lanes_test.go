package kernel

import (
	"testing"
	"unsafe"
)

// gen/arm64/lanes.go knows where the numbers of lanes are.
func TestCountedMasksLieAsTheAssemblyReadsThem(t *testing.T) {
	var m counted
	if at := unsafe.Offsetof(m.vectors); at != 64 {
		t.Errorf("the numbers of a vector are at %d", at)
	}
	if at := unsafe.Offsetof(m.halves); at != 72 {
		t.Errorf("the numbers of a half are at %d", at)
	}
	for n, m := range countedLanes {
		var lanes, vectors, halves int32
		for _, l := range m.lanes {
			lanes -= l
		}
		for _, v := range m.vectors {
			vectors += v
		}
		for _, v := range m.halves {
			halves += v
		}
		if lanes != int32(n) || vectors != int32(n) || halves != int32(n) {
			t.Errorf("the mask of %d has %d lanes, %d in vectors, %d in halves", n, lanes, vectors, halves)
		}
	}
}
