package imagefolder

import (
	"image"
	"math"

	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

// view maps an image to a square: the part box is scaled to the size full, of which
// the window is used.
type view struct {
	box    image.Rectangle // of the image, whose corner is (0, 0)
	full   image.Point
	window image.Rectangle // of full
	flip   bool            // mirror left and right at the end
}

// randomCrop is torchvision's RandomResizedCrop (Szegedy et al., 2015), followed
// by RandomHorizontalFlip.
type randomCrop struct {
	scale, ratio [2]float64
	flip         bool
}

func (c *randomCrop) random(r *vision.Source, size image.Point, side int) view {
	square := image.Pt(side, side)
	v := view{box: c.box(r, size), full: square, window: image.Rectangle{Max: square}}
	v.flip = r.Coin() && c.flip
	return v
}

// box draws area and aspect ratio until the box fits; after ten attempts it is the
// centre, as large as the limits of the aspect ratio allow.
func (c *randomCrop) box(r *vision.Source, size image.Point) image.Rectangle {
	lo, hi := math.Log(c.ratio[0]), math.Log(c.ratio[1])
	for range 10 {
		area := float64(size.X*size.Y) * r.Uniform(c.scale[0], c.scale[1])
		ratio := math.Exp(r.Uniform(lo, hi))
		w, h := round(math.Sqrt(area*ratio)), round(math.Sqrt(area/ratio))
		if w > 0 && w <= size.X && h > 0 && h <= size.Y {
			y, x := r.Below(size.Y-h+1), r.Below(size.X-w+1)
			return image.Rect(x, y, x+w, y+h)
		}
	}
	w, h := size.X, size.Y
	switch ratio := float64(w) / float64(h); {
	case ratio < c.ratio[0]:
		h = max(1, round(float64(w)/c.ratio[0]))
	case ratio > c.ratio[1]:
		w = max(1, round(float64(h)*c.ratio[1]))
	}
	x, y := (size.X-w)/2, (size.Y-h)/2
	return image.Rect(x, y, x+w, y+h)
}

// middle is torchvision's Resize of the short side, followed by CenterCrop.
func middle(size image.Point, side, short int) view {
	full := image.Pt(short, short*size.Y/size.X)
	if size.X > size.Y {
		full = image.Pt(short*size.X/size.Y, short)
	}
	x, y := round(float64(full.X-side)/2), round(float64(full.Y-side)/2)
	return view{box: image.Rectangle{Max: size}, full: full, window: image.Rect(x, y, x+side, y+side)}
}

// round is Python's: halves are rounded to even.
func round(x float64) int { return int(math.RoundToEven(x)) }
