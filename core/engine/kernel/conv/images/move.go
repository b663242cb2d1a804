package images

// Package interleaved has transpositions whose pixels go to places of a table, in a frame of zeros. Here they go side by side, in vectors of
// either width at any level, and prefetch each image by itself: a table of as many entries as a block has pixels would only be read.

// moveLanes is a call of the transpositions between images and lanes. The layout is known to gen/conv/move_lanes.go.
type moveLanes struct {
	blocks  int // of as many pixels as there are lanes
	images  *float32
	between int // bytes from one image to the next
	lanes   *float32
}

// fromImages transposes pixels, a multiple of the lanes, of as many images, which lie so many elements apart, to vectors of one pixel.
func fromImages(lanes, pixels int, src []float32, between int, dst []float32) {
	if pixels > 0 {
		runMoveLanes(lanes, 1, &moveLanes{pixels / lanes, &src[0], 4 * between, &dst[0]})
	}
}

// toImages reverses it.
func toImages(lanes, pixels int, src, dst []float32, between int) {
	if pixels > 0 {
		runMoveLanes(lanes, 2, &moveLanes{pixels / lanes, &dst[0], 4 * between, &src[0]})
	}
}
