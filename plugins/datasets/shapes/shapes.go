package shapes

import "github.com/trainctl/trainctl/plugins/datasets/vision"

// Geometry of an image: planes of red, green and blue, each row by row.
const (
	Size  = 32 // pixels a side
	plane = Size * Size
	bytes = vision.Channels * plane
	// Version changes whenever any image does.
	Version = 1
)

// Names are the classes.
var Names = []string{"disc", "ring", "square", "frame", "triangle", "wedge", "plus", "cross", "diamond", "stripes"}

// Stream is a sequence of images. Different streams have no image in common.
type Stream uint64

// The streams of the two splits.
const (
	Train Stream = 0x7261696e
	Test  Stream = 0x74657374
)

func (s Stream) source(index int) vision.Source { return vision.NewSource(uint64(s), 0, int64(index)) }

// Label returns the class of image index without drawing it.
func (s Stream) Label(index int) int {
	r := s.source(index)
	return r.Below(len(Names))
}

// Draw renders image index into dst, which has bytes bytes, and returns its class, an index into Names.
func (s Stream) Draw(index int, dst []byte) int {
	r := s.source(index)
	label := r.Below(len(Names))
	x0, y0, radius := Size/2+around(&r, 6), Size/2+around(&r, 6), 6+r.Below(7)
	ground, ink := colours(&r)
	amp := 1 + r.Below(64)
	for i := range plane {
		colour := &ground
		if inside(label, i%Size-x0, i/Size-y0, radius) {
			colour = &ink
		}
		grain := r.Uint64()
		for c := range vision.Channels {
			v := colour[c] + int(grain>>(16*c)&0xffff)*amp>>16 - amp/2
			dst[c*plane+i] = byte(min(max(v, 0), 255))
		}
	}
	return label
}

func around(r *vision.Source, n int) int { return r.Below(2*n+1) - n }

// colours returns two colours that differ by 64 or more in at least one channel.
func colours(r *vision.Source) (ground, ink [vision.Channels]int) {
	for c := range ground {
		ground[c], ink[c] = r.Below(256), r.Below(256)
	}
	c := r.Below(vision.Channels)
	ink[c] = (ground[c] + 64 + r.Below(128)) % 256
	return ground, ink
}

// inside reports whether the point (dx, dy) from the middle belongs to the
// shape of a class with the given radius.
func inside(class, dx, dy, radius int) bool {
	ax, ay := max(dx, -dx), max(dy, -dy)
	box, arm := max(ax, ay) <= radius, max(radius/4, 1)
	switch class {
	case 0:
		return dx*dx+dy*dy <= radius*radius
	case 1:
		d := dx*dx + dy*dy
		return d <= radius*radius && 9*d >= 4*radius*radius
	case 2:
		return box
	case 3:
		return box && 3*max(ax, ay) >= 2*radius
	case 4:
		return box && 2*ax <= radius+dy
	case 5:
		return box && 2*ax <= radius-dy
	case 6:
		return box && min(ax, ay) <= arm
	case 7:
		return box && max(ax-ay, ay-ax) <= arm
	case 8:
		return ax+ay <= radius
	default:
		return box && (dy+radius)/2%2 == 0
	}
}
