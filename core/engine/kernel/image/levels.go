package image

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Levels is what each value of a byte becomes in an image for a model:
// (v/255 − mean)/std, every operation rounded to float32, as
// torchvision.transforms.functional's to_tensor and normalize do it.
type Levels struct {
	table [256]float32
	// sums are 1/255 in two parts, the second what the first lacks, the mean, and
	// 1/std in two parts. x/255 as x·hi + x·lo with the first product unrounded is
	// the rounded quotient but for a few x in a million, so NewLevels tries them all.
	sums   [5]float32
	vector bool // sums give the table's bits
}

// NewLevels tabulates a normalisation; mean and std are in units of v/255. With
// 0 and 1 it is v/255.
func NewLevels(mean, std float32) *Levels {
	l := &Levels{}
	for v := range l.table {
		x := float32(v) / 255
		x = float32(x - mean)
		l.table[v] = x / std
	}
	hi255, lo255 := reciprocal(255)
	hiStd, loStd := reciprocal(std)
	l.sums = [...]float32{hi255, lo255, mean, hiStd, loStd}
	l.vector = l.agrees()
	return l
}

func reciprocal(x float32) (hi, lo float32) {
	r := 1 / float64(x)
	hi = float32(r)
	return hi, float32(r - float64(hi))
}

// agrees tries the vector kernel on every byte.
func (l *Levels) agrees() bool {
	if kernel.Current() == kernel.Generic {
		return false
	}
	var all [256]byte
	for v := range all {
		all[v] = byte(v)
	}
	var got [256]float32
	vecLevels(&got[0], &all[0], &l.sums[0], len(all))
	for v, x := range got {
		if math.Float32bits(x) != math.Float32bits(l.table[v]) {
			return false
		}
	}
	return true
}

// Convert writes what each byte of src becomes to dst, which is at least as long.
func (l *Levels) Convert(dst []float32, src []byte) {
	dst = dst[:len(src)]
	if l.vector {
		if n := kernel.Head(len(src)); n > 0 {
			vecLevels(&dst[0], &src[0], &l.sums[0], n)
			dst, src = dst[n:], src[n:]
		}
	}
	for i, v := range src {
		dst[i] = l.table[v]
	}
}
