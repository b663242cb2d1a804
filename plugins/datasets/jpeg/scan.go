package jpeg

import (
	"image"

	"github.com/trainctl/trainctl/core/kernel"
)

// keepBytes bounds what a plane of one image leaves for the next.
const keepBytes = 16 << 20

// natural gives the place, column by column, of the k-th coefficient in zigzag
// order (figure 5).
var natural = func() (at [kernel.BlockSize]uint8) {
	x, y := 0, 0
	for k := range at {
		at[k] = uint8(8*x + y)
		switch up := (x+y)%2 == 0; {
		case up && x == 7:
			y++
		case up && y == 0:
			x++
		case up:
			x, y = x+1, y-1
		case y == 7:
			x++
		case x == 0:
			y++
		default:
			x, y = x-1, y+1
		}
	}
	return at
}()

// Decode decodes the file that was opened. The image is right within part, and
// undefined elsewhere. It reports false where anything is unusual or damaged,
// within part or not. The image's memory is the decoder's.
func (d *Decoder) Decode(part image.Rectangle) (image.Image, bool) {
	wide, high := 8*d.comps[0].h, 8*d.comps[0].v
	across, down := (d.size.X+wide-1)/wide, (d.size.Y+high-1)/high
	for i := range d.comps {
		c := &d.comps[i]
		c.stride, c.pred = 8*c.h*across, 0
		n := c.stride * 8 * c.v * down
		if cap(d.room[i]) < n || cap(d.room[i]) > keepBytes && n < keepBytes {
			d.room[i] = make([]byte, n)
		}
		d.room[i] = d.room[i][:n]
		c.plane = d.room[i]
	}
	r := bits{file: d.file}
	for mcu := range across * down {
		if d.every > 0 && mcu > 0 && mcu%d.every == 0 {
			if !r.restart(rst0 + byte((mcu/d.every-1)%8)) {
				return nil, false
			}
			for i := range d.comps {
				d.comps[i].pred = 0
			}
		}
		x, y := mcu%across, mcu/across
		seen := image.Rect(x*wide, y*high, (x+1)*wide, (y+1)*high).Overlaps(part)
		if !d.mcu(&r, x, y, seen) {
			return nil, false
		}
	}
	if !r.restart(eoi) {
		return nil, false
	}
	return d.picture(), true
}

// mcu decodes the blocks of one unit, and makes their pixels where they are seen.
func (d *Decoder) mcu(r *bits, x, y int, seen bool) bool {
	for i := range d.comps {
		c := &d.comps[i]
		for b := range c.h * c.v {
			if !d.block(r, c) {
				return false
			}
			if seen {
				bx, by := x*c.h+b%c.h, y*c.v+b/c.h
				kernel.InverseDCT(c.plane[8*(by*c.stride+bx):], c.stride, &d.coefs)
			}
		}
	}
	return true
}

// block decodes the coefficients of one block (F.2.2).
func (d *Decoder) block(r *bits, c *component) bool {
	d.coefs = [kernel.BlockSize]int32{}
	if r.n < 32 {
		r.fill()
	}
	size := r.symbol(c.dc)
	if size < 0 || size > 16 {
		return false
	}
	if size > 0 {
		c.pred += extend(r.take(int(size)), int(size))
	}
	d.coefs[0] = c.pred * c.quant[0]
	return r.rest(c.ac, c.quant, &d.coefs)
}

// rest decodes the coefficients behind the first.
func (r *bits) rest(h *huffman, quant, coefs *[kernel.BlockSize]int32) bool {
	acc, n := r.acc, r.n // in registers
	for k := 1; k < kernel.BlockSize; k++ {
		if n < 32 {
			r.acc, r.n = acc, n
			r.fill()
			acc, n = r.acc, r.n
		}
		e := h.entries[acc>>(64-look)]
		value := e >> 16
		if e&valued != 0 {
			k += int(e >> 12 & 15)
			length := e & 63
			acc <<= length
			n -= int(length)
		} else {
			r.acc, r.n = acc, n
			symbol := r.symbol(h)
			run, size := int(symbol>>4), int(symbol&15)
			switch {
			case symbol == 0: // end of block
				return true
			case symbol == 0xf0: // sixteen zeros
				k += 15
				acc, n = r.acc, r.n
				continue
			case symbol < 0 || size == 0:
				return false
			}
			k += run
			value = extend(r.take(size), size)
			acc, n = r.acc, r.n
		}
		if k >= kernel.BlockSize {
			return false
		}
		coefs[natural[k]&63] = value * quant[k]
	}
	r.acc, r.n = acc, n
	return true
}
