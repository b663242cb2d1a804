package digits

// Geometry of an image.
const (
	Size   = 28 // pixels a side
	Pixels = Size * Size
	// Version changes whenever any image does.
	Version = 1
)

// Stream is a sequence of images. Different streams have no image in common.
type Stream uint64

// The streams of the two splits.
const (
	Train Stream = 0x7261696e
	Test  Stream = 0x74657374
)

// Label is the digit, 0 to 9, that image index of the stream shows.
func (s Stream) Label(index int) int {
	r := s.source(index)
	return r.below(10)
}

// Draw renders image index into dst, which has Pixels bytes (row by row, 0 is
// paper, 255 is ink), and returns the digit it shows.
func (s Stream) Draw(index int, dst []byte) int {
	r := s.source(index)
	label := r.below(10)
	canvas := (*[Pixels]byte)(dst)
	clear(canvas[:])
	variants := glyphs[label]
	writeGlyph(canvas, variants[r.below(len(variants))], &r)
	develop(canvas, &r)
	return label
}

// writeGlyph traces the strokes with one pen and one affine map.
func writeGlyph(canvas *[Pixels]byte, g glyph, r *source) {
	place, nib := newAffine(r), newPen(r)
	for _, s := range g {
		var pts [maxPoints]point
		for i, p := range s {
			pts[i] = place.apply(point{p.x + r.around(bend), p.y + r.around(bend)})
		}
		traceSpline(canvas, pts[:len(s)], nib)
	}
	if r.below(100) < strayPercent {
		traceSpline(canvas, stray(r), nib)
	}
}

// How irregular the handwriting is. The values are chosen so that the two-block
// ConvNet of the DDP tutorials reaches about 99 % after two epochs.
const (
	bend         = 9  // jitter of a control point, in units of the glyph box (100)
	turn         = 26 // shear and rotation, percent of the scale
	shrink       = 26 // spread of the two scales around the mean, percent
	drift        = 3 * sub
	strayPercent = 20 // images with a stray mark of the pen
	noiseMax     = 90 // peak of the noise, of 255
)

// stray is a short mark anywhere on the paper.
func stray(r *source) []point {
	x, y := r.below(Size*sub), r.below(Size*sub)
	return []point{{x, y}, {x + r.around(5*sub), y + r.around(5*sub)}}
}

// develop fades the ink, wipes a small spot and adds noise.
func develop(canvas *[Pixels]byte, r *source) {
	ink := 150 + r.below(106)
	wipe(canvas, r)
	amp := r.below(noiseMax)
	for i := 0; i < Pixels; i += 8 {
		bits := r.next()
		for j := range 8 {
			grain := int(bits>>(8*j)&0xff) * amp >> 8
			v := int(canvas[i+j])*ink>>8 + grain - amp/2
			canvas[i+j] = byte(min(max(v, 0), 255))
		}
	}
}

// wipe clears a spot of 2 to 4 pixels a side: a gap in a stroke, if it hits one.
func wipe(canvas *[Pixels]byte, r *source) {
	side := 2 + r.below(3)
	x, y := 4+r.below(Size-8-side), 4+r.below(Size-8-side)
	for row := y; row < y+side; row++ {
		clear(canvas[row*Size+x : row*Size+x+side])
	}
}
