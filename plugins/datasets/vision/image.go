package vision

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel/image"
)

// Image is the planes of an image, row by row, each of Width·Height bytes: one of a grey image, or red,
// green and blue. Its transforms are those of torchvision.transforms.functional for uint8 tensors, with
// the same rounding.
type Image struct {
	Width, Height int
	Planes        [][]byte
	other         []byte // of a transform that reads neighbours
}

// NewImage makes an image of one channel or three for transforms.
func NewImage(width, height, channels int) *Image {
	m := &Image{Width: width, Height: height, Planes: make([][]byte, channels), other: make([]byte, width*height)}
	for c := range m.Planes {
		m.Planes[c] = make([]byte, width*height)
	}
	return m
}

// colourless reports whether an image has one channel: neither saturation nor hue.
func (m *Image) colourless() bool { return len(m.Planes) == 1 }

// Unpack takes an image as pixels of package kernel.
func (m *Image) Unpack(pixels []byte) {
	for c, p := range m.Planes {
		for i := range p {
			p[i] = pixels[i*image.PixelBytes+c]
		}
	}
}

// mapped applies a function of one level to a plane.
func mapped(plane []byte, f func(v float32) byte) {
	var levels [256]byte
	for v := range levels {
		levels[v] = f(float32(v))
	}
	for i, v := range plane {
		plane[i] = levels[v]
	}
}

// level clamps and truncates.
func level(v float32) byte { return byte(min(max(v, 0), 255)) }

// blend is ratio·a + (1 - ratio)·b. Products are rounded before they are added.
func blend(ratio float64, a, b float32) byte {
	x, y := float32(ratio)*a, float32(1-ratio)*b
	return level(float32(x) + float32(y))
}

// grey is a pixel's luma, truncated.
func (m *Image) grey(i int) byte {
	if m.colourless() {
		return m.Planes[0][i]
	}
	r, g, b := float32(0.2989)*float32(m.Planes[0][i]), float32(0.587)*float32(m.Planes[1][i]), float32(0.114)*float32(m.Planes[2][i])
	return byte(float32(float32(r)+float32(g)) + float32(b))
}

// Brightness multiplies by a factor.
func (m *Image) Brightness(factor float64) {
	for _, p := range m.Planes {
		mapped(p, func(v float32) byte { return blend(factor, v, 0) })
	}
}

// Contrast blends with the mean of the grey image.
func (m *Image) Contrast(factor float64) {
	sum := 0
	for i := range m.Planes[0] {
		sum += int(m.grey(i))
	}
	mean := float32(sum) / float32(len(m.Planes[0]))
	for _, p := range m.Planes {
		mapped(p, func(v float32) byte { return blend(factor, v, mean) })
	}
}

// Saturation blends with the grey image. A grey image does not change.
func (m *Image) Saturation(factor float64) {
	if m.colourless() {
		return
	}
	for i := range m.Planes[0] {
		g := float32(m.grey(i))
		for _, p := range m.Planes {
			p[i] = blend(factor, float32(p[i]), g)
		}
	}
}

// Hue rotates the hue by a fraction of the circle, -0.5 to 0.5. A grey image does not change.
func (m *Image) Hue(shift float64) {
	if m.colourless() {
		return
	}
	for i := range m.Planes[0] {
		r, g, b := float32(m.Planes[0][i])/255, float32(m.Planes[1][i])/255, float32(m.Planes[2][i])/255
		h, s, v := hsv(r, g, b)
		h = float32(math.Mod(float64(h+float32(shift)), 1))
		if h < 0 {
			h++
		}
		r, g, b = rgb(h, s, v)
		m.Planes[0][i], m.Planes[1][i], m.Planes[2][i] = byte(r*255.999), byte(g*255.999), byte(b*255.999)
	}
}

func hsv(r, g, b float32) (h, s, v float32) {
	v = max(r, g, b)
	spread := v - min(r, g, b)
	if spread == 0 {
		return 0, 0, v
	}
	s = spread / v
	rc, gc, bc := (v-r)/spread, (v-g)/spread, (v-b)/spread
	switch v {
	case r:
		h = bc - gc
	case g:
		h = 2 + rc - bc
	default:
		h = 4 + gc - rc
	}
	return float32(math.Mod(float64(float32(h/6)+1), 1)), s, v
}

func rgb(h, s, v float32) (r, g, b float32) {
	h6 := float32(h * 6)
	floor := float32(math.Floor(float64(h6)))
	f := h6 - floor
	unit := func(x float32) float32 { return min(max(x, 0), 1) }
	sf, sg := float32(s*f), float32(s*float32(1-f))
	p, q, t := unit(v*float32(1-s)), unit(v*float32(1-sf)), unit(v*float32(1-sg))
	switch int(floor) % 6 {
	case 0:
		return v, t, p
	case 1:
		return q, v, p
	case 2:
		return p, v, t
	case 3:
		return p, q, v
	case 4:
		return t, p, v
	}
	return v, p, q
}

// Sharpness blends with the smoothed image; the border does not change.
func (m *Image) Sharpness(factor float64) {
	w, h := m.Width, m.Height
	if w <= 2 || h <= 2 {
		return
	}
	for c, p := range m.Planes {
		for i, v := range p { // at the border the image is blended with itself
			m.other[i] = blend(factor, float32(v), float32(v))
		}
		for y := 1; y < h-1; y++ {
			for x := 1; x < w-1; x++ {
				i := y*w + x
				sum := int(p[i-w-1]) + int(p[i-w]) + int(p[i-w+1]) + int(p[i-1]) + 5*int(p[i]) + int(p[i+1]) + int(p[i+w-1]) + int(p[i+w]) + int(p[i+w+1])
				m.other[i] = blend(factor, float32(p[i]), float32((2*sum+13)/26)) // sum/13, rounded; there are no halves
			}
		}
		m.Planes[c], m.other = m.other, p
	}
}

// Posterize keeps the highest bits.
func (m *Image) Posterize(bits int) {
	mask := byte(0xff << (8 - bits))
	for _, p := range m.Planes {
		for i := range p {
			p[i] &= mask
		}
	}
}

// Solarize inverts levels at or above a threshold.
func (m *Image) Solarize(threshold float64) {
	for _, p := range m.Planes {
		mapped(p, func(v float32) byte {
			if v >= float32(threshold) {
				v = 255 - v
			}
			return byte(v)
		})
	}
}

// AutoContrast stretches each plane to all levels.
func (m *Image) AutoContrast() {
	for _, p := range m.Planes {
		lo, hi := byte(255), byte(0)
		for _, v := range p {
			lo, hi = min(lo, v), max(hi, v)
		}
		if lo < hi {
			scale := float32(255 * (1 / (float32(hi) - float32(lo)))) // as PyTorch divides a number by a tensor
			mapped(p, func(v float32) byte { return level((v - float32(lo)) * scale) })
		}
	}
}

// Equalize spreads each plane's levels evenly.
func (m *Image) Equalize() {
	for _, p := range m.Planes {
		var counts [256]int
		for _, v := range p {
			counts[v]++
		}
		last := 0
		for v, n := range counts {
			if n > 0 {
				last = v
			}
		}
		step := (len(p) - counts[last]) / 255
		if step == 0 {
			continue
		}
		var levels [256]byte
		for v, sum := 0, step/2; v < 255; v++ {
			sum += counts[v]
			levels[v+1] = byte(min(sum/step, 255))
		}
		for i, v := range p {
			p[i] = levels[v]
		}
	}
}

// Affine takes each pixel from the position to which a matrix [a b c; d e f] maps it, relative to
// the centre of the image and rounded to the nearest pixel; outside of the image it is black.
func (m *Image) Affine(a [6]float64) {
	w, h := m.Width, m.Height
	var t [6]float32 // for coordinates in [-1, 1]
	for i, v := range a {
		t[i] = float32(v) / float32([2]float32{float32(w) / 2, float32(h) / 2}[i/3])
	}
	for c, p := range m.Planes {
		for y := range h {
			fy := float32(y) + 0.5 - float32(h)/2
			for x := range w {
				fx := float32(x) + 0.5 - float32(w)/2
				sx, sy := nearest(fx, fy, t[:3], w), nearest(fx, fy, t[3:], h)
				m.other[y*w+x] = 0
				if sx >= 0 && sx < w && sy >= 0 && sy < h {
					m.other[y*w+x] = p[sy*w+sx]
				}
			}
		}
		m.Planes[c], m.other = m.other, p
	}
}

// nearest returns the index of the pixel to read along one axis, from one row of the matrix.
func nearest(x, y float32, t []float32, size int) int {
	at := fma(x, t[0], 0)
	at = fma(y, t[1], at)
	at += t[2]
	return int(math.RoundToEven(float64(float32(float32(at+1)*float32(size)-1) / 2)))
}

func fma(a, b, c float32) float32 { return float32(math.FMA(float64(a), float64(b), float64(c))) }

// Rotate turns the image counter-clockwise, by degrees.
func (m *Image) Rotate(degrees float64) {
	sin, cos := math.Sincos(-degrees * math.Pi / 180)
	m.Affine([6]float64{cos, sin, 0, -sin, cos, 0})
}

// Shear moves rows by x and columns by y for each pixel from the top and the left.
func (m *Image) Shear(x, y float64) {
	cx, cy := float64(m.Width)/2, float64(m.Height)/2 // from the centre to the corner
	// The inverse of [1 -x; -y 1+xy] around the corner, as torchvision composes it.
	a, b, c, d := 1+x*y, x, y, 1.0
	m.Affine([6]float64{a, b, a*cx + b*cy - cx, c, d, c*cx + d*cy - cy})
}

// Translate moves the image by whole pixels.
func (m *Image) Translate(x, y int) {
	m.Affine([6]float64{1, 0, float64(-x), 0, 1, float64(-y)})
}
