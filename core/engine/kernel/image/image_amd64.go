package image

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecLevels(dst []float32, src []byte, sums *[5]float32) {
	if kernel.Wide() {
		levelsAVX512(&dst[0], &src[0], &sums[0], len(dst))
	} else {
		levelsAVX2(&dst[0], &src[0], &sums[0], len(dst))
	}
}

func vecColours(dst, y, cb, cr []byte) {
	if kernel.Wide() {
		coloursAVX512(&dst[0], &y[0], &cb[0], &cr[0], len(y))
	} else {
		coloursAVX2(&dst[0], &y[0], &cb[0], &cr[0], len(y))
	}
}

// spread gives each of four weights to the four bytes of a pixel.
var spread = [16]uint32{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}

func vecAcrossPixels(dst, src []byte, first, weight []int32, taps int) {
	if kernel.Wide() {
		acrossPixelsAVX512(&dst[0], &src[0], &first[0], &weight[0], taps/TapGroup, len(first), &spread[0])
	} else {
		acrossPixelsAVX2(&dst[0], &src[0], &first[0], &weight[0], taps/TapGroup, len(first), &spread[0])
	}
}

func vecDownPixels(dst, src []byte, stride int, weight []int32) {
	if kernel.Wide() {
		downPixelsAVX512(&dst[0], &src[0], stride, &weight[0], len(weight), len(dst))
	} else {
		downPixelsAVX2(&dst[0], &src[0], stride, &weight[0], len(weight), len(dst))
	}
}

func vecChannel(dst []float32, pixels []byte, c int, sums *[5]float32) {
	if kernel.Wide() {
		channelAVX512(&dst[0], &pixels[0], uint64(8*c), &sums[0], len(dst))
	} else {
		channelAVX2(&dst[0], &pixels[0], uint64(8*c), &sums[0], len(dst))
	}
}
