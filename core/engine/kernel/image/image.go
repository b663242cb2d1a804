package image

import (
	"encoding/binary"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Pixels are four bytes: red, green, blue, and an unused one. Four can
// be scaled in a vector's lanes without being taken apart.
const PixelBytes = 4

// WeightBits is the precision of the weights that images are scaled with: 8 bits
// for a byte and 2 for overshoot are left in 32.
const WeightBits = 32 - 8 - 2

// TapGroup divides the number of weights per pixel that AcrossPixels takes.
const TapGroup = 4

// Colours turns a row of luma and chroma into as many pixels as y has bytes, with
// the bits of libjpeg: the matrix of JFIF in fixed point of 16 bits, rounded to the
// nearest level and clipped. (color.YCbCrToRGB has the same factors and cuts the
// fraction off, which makes a fifth of all bytes one level smaller.)
func Colours(dst, y, cb, cr []byte) {
	n := kernel.Head(len(y))
	dst, cb, cr = dst[:PixelBytes*len(y)], cb[:len(y)], cr[:len(y)]
	if n > 0 {
		vecColours(&dst[0], &y[0], &cb[0], &cr[0], n)
	}
	for i := n; i < len(y); i++ {
		p := dst[PixelBytes*i:][:PixelBytes]
		p[0], p[1], p[2] = rgb(y[i], cb[i], cr[i])
	}
}

func rgb(y, cb, cr byte) (r, g, b byte) {
	level, blue, red := int32(y)<<16+1<<15, int32(cb)-128, int32(cr)-128
	clip := func(v int32) byte { return byte(min(max(v>>16, 0), 255)) }
	return clip(level + 91881*red), clip(level - 22554*blue - 46802*red), clip(level + 116130*blue)
}

// AcrossPixels scales a row: pixel i is the sum of taps pixels of src from
// first[i] on, by weights of WeightBits from weight[i·taps] on, rounded and
// clipped. taps is a multiple of TapGroup; first does not decrease, and all taps
// lie in src.
func AcrossPixels(dst, src []byte, first, weight []int32, taps int) {
	n := len(first)
	if n == 0 {
		return
	}
	dst, src, weight = dst[:PixelBytes*n], src[:PixelBytes*(int(first[n-1])+taps)], weight[:n*taps]
	if taps%TapGroup != 0 || first[0] < 0 {
		panic("image: AcrossPixels needs taps in multiples of TapGroup, from a first pixel of at least 0")
	}
	if kernel.Current() != kernel.Generic {
		vecAcrossPixels(&dst[0], &src[0], &first[0], &weight[0], taps/TapGroup, n, &spread[0])
		return
	}
	for i, f := range first {
		var sum [PixelBytes]int32
		p := src[PixelBytes*int(f):]
		for k, w := range weight[i*taps:][:taps] {
			for c := range sum {
				sum[c] += w * int32(p[PixelBytes*k+c])
			}
		}
		for c, s := range sum {
			dst[PixelBytes*i+c] = clipped(s)
		}
	}
}

// spread gives each of four weights to the four bytes of a pixel.
var spread = [16]uint32{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}

// DownPixels scales columns: byte i of dst is the sum of the bytes i, i+stride,
// i+2·stride, … of src by the weights, rounded and clipped.
func DownPixels(dst, src []byte, stride int, weight []int32) {
	if len(weight) == 0 {
		panic("image: DownPixels needs at least one weight")
	}
	n, at := len(dst), 0
	src = src[:(len(weight)-1)*stride+n]
	if kernel.Current() != kernel.Generic {
		if at = n &^ 31; at > 0 {
			vecDownPixels(&dst[0], &src[0], stride, &weight[0], len(weight), at)
		}
	}
	for ; at < n; at++ {
		sum := int32(0)
		for k, w := range weight {
			sum += w * int32(src[k*stride+at])
		}
		dst[at] = clipped(sum)
	}
}

func clipped(sum int32) byte { return byte(min(max((sum+1<<(WeightBits-1))>>WeightBits, 0), 255)) }

// Channel is Convert of channel c of pixels, 0 for red.
func (l *Levels) Channel(dst []float32, pixels []byte, c int) {
	n := len(pixels) / PixelBytes
	dst = dst[:n]
	if l.vector {
		if k := kernel.Head(n); k > 0 {
			vecChannel(&dst[0], &pixels[0], uint64(8*c), &l.sums[0], k)
			dst, pixels = dst[k:], pixels[PixelBytes*k:]
		}
	}
	for i := range dst {
		dst[i] = l.table[pixels[PixelBytes*i+c]]
	}
}

// MirrorPixels reverses a row of pixels.
func MirrorPixels(row []byte) {
	le := binary.LittleEndian
	for i, j := 0, len(row)-PixelBytes; i < j; i, j = i+PixelBytes, j-PixelBytes {
		a, b := le.Uint32(row[i:]), le.Uint32(row[j:])
		le.PutUint32(row[i:], b)
		le.PutUint32(row[j:], a)
	}
}
