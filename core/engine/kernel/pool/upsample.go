package pool

import "github.com/trainctl/trainctl/core/engine/kernel"

// Taps say of which inputs each output along one axis is made: 1−share of the one
// at low, and share of the one at high.
type Taps[T kernel.Float] struct {
	low, high []int
	share     []T
}

// NewTaps are those of n inputs enlarged by a whole factor; bilinear ones take pixels'
// centres, as torch.nn.Upsample does with align_corners=False.
func NewTaps[T kernel.Float](n, factor int, bilinear bool) Taps[T] {
	var t Taps[T]
	for i := range n * factor {
		low, share := i/factor, 0.0
		high := low
		if at := max(0, (float64(i)+0.5)/float64(factor)-0.5); bilinear {
			low = int(at)
			high, share = min(low+1, n-1), at-float64(low)
		}
		t.low, t.high, t.share = append(t.low, low), append(t.high, high), append(t.share, T(share))
	}
	return t
}

// Upsample enlarges planes of x to y, rows and columns as their taps say.
func Upsample[T kernel.Float](planes int, rows, cols Taps[T], bilinear bool, x, y []T) {
	h, w := rows.inputs(), cols.inputs()
	for ; planes > 0; planes-- {
		for i, low := range rows.low {
			a, b, f, to := x[low*w:][:w], x[rows.high[i]*w:][:w], rows.share[i], y[i*len(cols.low):][:len(cols.low)]
			for j, l := range cols.low {
				if to[j] = a[l]; bilinear {
					r, g := cols.high[j], cols.share[j]
					to[j] = (1-f)*((1-g)*a[l]+g*a[r]) + f*((1-g)*b[l]+g*b[r])
				}
			}
		}
		x, y = x[h*w:], y[len(rows.low)*len(cols.low):]
	}
}

// UpsampleGrad overwrites dx with the gradient of Upsample's input.
func UpsampleGrad[T kernel.Float](planes int, rows, cols Taps[T], bilinear bool, dy, dx []T) {
	h, w := rows.inputs(), cols.inputs()
	clear(dx[:planes*h*w])
	for ; planes > 0; planes-- {
		for i, low := range rows.low {
			a, b, f, from := dx[low*w:][:w], dx[rows.high[i]*w:][:w], rows.share[i], dy[i*len(cols.low):][:len(cols.low)]
			for j, l := range cols.low {
				if !bilinear {
					a[l] += from[j]
					continue
				}
				r, g := cols.high[j], cols.share[j]
				top, bottom := (1-f)*from[j], f*from[j]
				a[l] += (1 - g) * top
				a[r] += g * top
				b[l] += (1 - g) * bottom
				b[r] += g * bottom
			}
		}
		dx, dy = dx[h*w:], dy[len(rows.low)*len(cols.low):]
	}
}

// inputs is how many there are: the last output is made of the last one.
func (t *Taps[T]) inputs() int { return t.high[len(t.high)-1] + 1 }
