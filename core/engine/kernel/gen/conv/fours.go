package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of fourPlanes.
const (
	fpPlanes, fpImages, fpX, fpY = 0, 8, 16, 24
	fpImage, fpWeights, fpBias   = 32, 40, 48
	fpBiasPlane, fpSums          = 56, 64
	fourRow                      = 16          // bytes
	fourPlane                    = 4 * fourRow // of which a vector has half
	fourAhead                    = 512         // how far ahead of what they read these kernels prefetch, in bytes
)

// fours emits depthwise convolution of planes of 4×4 with stride 1 and the padding that keeps them. A vector has two rows, one in each half. Rows that
// a row of the filter sees begin at any multiple of 16 bytes, so that loads shift rows. Shifts of the bytes of both halves move columns, and shift in the zeros of
// the padding. They are linear: it is the sums of each column of the filter that they move, of which there are fewer than views of x.
func fours(a *isa.Asm) {
	for _, size := range []int{3, 5} {
		of := fmt.Sprintf("filters of %d×%d with the padding that keeps their size.", size, size)
		newFourKernel(a, fmt.Sprint("foursForward", size), "convolves planes of 4×4 by "+of, size).results(false)
		newFourKernel(a, fmt.Sprint("foursGrad", size), "computes the gradient of planes of 4×4 that are seen by "+of, size).results(true)
		newFourKernel(a, fmt.Sprint("foursDots", size), "adds the products of dy and x of planes of 4×4, [row][column][lane], for "+of, size).dots()
	}
}

// fourKernel is one of the kernels.
type fourKernel struct {
	*isa.Asm
	size, pad int
	t, x, y   reg.GPVirtual // x and y are of the image that is computed
	weights   reg.GPVirtual
}

func newFourKernel(a *isa.Asm, name, doc string, size int) *fourKernel {
	a.Kernel(name, "func(fourPlanes *byte)", doc)
	return &fourKernel{Asm: a, size: size, pad: size / 2, t: a.Gp("fourPlanes"), x: a.GP64(), y: a.GP64()}
}

// overPlanes emits the loop over planes. The body is run for each, with registers that point to its images.
func (k *fourKernel) overPlanes(plane func(x, y reg.GPVirtual)) {
	x, y, left := k.Field(k.t, fpX), k.Field(k.t, fpY), k.Field(k.t, fpPlanes)
	k.Label("plane")
	plane(x, y)
	k.Advance(operand.U8(fourPlane), x, y)
	k.CountDown(left, "plane")
	k.Ret()
}

// overImages emits the loop over images of a plane.
func (k *fourKernel) overImages(label string, x, y reg.GPVirtual, image func()) {
	left, step := k.Field(k.t, fpImages), k.Field(k.t, fpImage)
	k.MOVQ(x, k.x)
	k.MOVQ(y, k.y)
	k.Label(label)
	image()
	k.Advance(step, k.x, k.y)
	k.CountDown(left, label)
}

// view loads the rows of x from the row-th on, of which one may lie above or below the plane.
func (k *fourKernel) view(row int) reg.VecVirtual {
	v := k.Vec()
	switch row {
	case -1:
		k.Zero(v)
		k.VINSERTF128(operand.U8(1), operand.Mem{Base: k.x}, v, v)
	case 3:
		k.Zero(v)
		k.VINSERTF128(operand.U8(0), operand.Mem{Base: k.x, Disp: 3 * fourRow}, v, v)
	default:
		k.Move(operand.Mem{Base: k.x, Disp: row * fourRow}, v)
	}
	return v
}

// eachView calls f for the rows that halves of a plane see, and which row of the filter sees them.
func (k *fourKernel) eachView(f func(v reg.VecVirtual, seen func(func(half, r int)))) {
	for row := -1; row <= 3; row++ {
		f(k.view(row), func(see func(half, r int)) {
			for half := range 2 {
				if r := row - 2*half + k.pad; r >= 0 && r < k.size {
					see(half, r)
				}
			}
		})
	}
}

// moved moves the columns of v by so many, to the right if that is positive.
func (k *fourKernel) moved(columns int, v, to reg.VecVirtual) {
	switch {
	case columns > 0:
		k.VPSLLDQ(operand.U8(4*columns), v, to)
	case columns < 0:
		k.VPSRLDQ(operand.U8(-4*columns), v, to)
	}
}

// results computes y = bias + Σ w·x, or with the filter turned, without bias, dx of dy.
func (k *fourKernel) results(turned bool) {
	taps := k.size * k.size
	from, bias, biasPlane := k.Field(k.t, fpWeights), k.GP64(), k.GP64()
	at := func(r, c int) operand.Mem {
		i := r*k.size + c
		if turned {
			i = taps - 1 - i
		}
		return operand.Mem{Base: from, Disp: 4 * i}
	}
	if !turned {
		k.MOVQ(operand.Mem{Base: k.t, Disp: fpBias}, bias)
		k.MOVQ(operand.Mem{Base: k.t, Disp: fpBiasPlane}, biasPlane)
	}
	k.overPlanes(func(x, y reg.GPVirtual) {
		sums := k.columnSums
		if k.size == 3 {
			sums = k.rowSums(at)
		}
		k.overImages("image", x, y, func() {
			k.PREFETCHT0(operand.Mem{Base: k.x, Disp: fourAhead})
			var y [2]reg.VecVirtual
			if !turned {
				for i := range y {
					y[i] = k.Vec()
					k.Spread(operand.Mem{Base: bias}, y[i])
				}
			}
			sums(at, &y)
			for i, v := range y {
				k.Move(v, operand.Mem{Base: k.y, Disp: 2 * fourRow * i})
			}
		})
		k.ADDQ(operand.U8(4*taps), from)
		if !turned {
			k.ADDQ(biasPlane, bias)
		}
	})
}

// place is where a weight lies.
type place func(r, c int) operand.Mem

// add adds w·x to a sum that may not have begun.
func (k *fourKernel) add(w, x reg.VecVirtual, sum *reg.VecVirtual) {
	if *sum != nil {
		k.Fma(w, x, *sum)
		return
	}
	*sum = k.Vec()
	k.Mul(w, x, *sum)
}

// join adds the sums of a column of the filter to results, which the middle column begins.
func (k *fourKernel) join(c int, sums, y *[2]reg.VecVirtual) {
	for i, v := range sums {
		k.moved(k.pad-c, v, v)
		k.Add(v, y[i], y[i])
	}
}

// rowSums keeps all weights of a plane in registers, and gives what adds to y, view by view.
func (k *fourKernel) rowSums(at place) func(place, *[2]reg.VecVirtual) {
	weights := k.Vecs(k.size * k.size)
	for i, v := range weights {
		k.Spread(at(i/k.size, i%k.size), v)
	}
	return func(_ place, y *[2]reg.VecVirtual) {
		sums := make([][2]reg.VecVirtual, k.size)
		sums[k.pad] = *y
		k.eachView(func(v reg.VecVirtual, seen func(func(half, r int))) {
			seen(func(half, r int) {
				for c := range sums {
					k.add(weights[r*k.size+c], v, &sums[c][half])
				}
			})
		})
		*y = sums[k.pad]
		for c := range sums {
			if c != k.pad {
				k.join(c, &sums[c], y)
			}
		}
	}
}

// columnSums keeps all views in registers, and adds to y column by column.
func (k *fourKernel) columnSums(at place, y *[2]reg.VecVirtual) {
	var views []reg.VecVirtual
	k.eachView(func(v reg.VecVirtual, _ func(func(half, r int))) { views = append(views, v) })
	column := func(c int, sums *[2]reg.VecVirtual) {
		for r := range k.size {
			w := k.Vec()
			k.Spread(at(r, c), w)
			for half := range sums {
				if i := 2*half + r - k.pad + 1; i >= 0 && i < len(views) {
					k.add(w, views[i], &sums[half])
				}
			}
		}
	}
	column(k.pad, y)
	for c := range k.size {
		if c != k.pad {
			var sums [2]reg.VecVirtual
			column(c, &sums)
			k.join(c, &sums, y)
		}
	}
}

// dots adds dy·x: some columns of the filter at a time, whose sums stay in registers for all images.
func (k *fourKernel) dots() {
	sums, together := k.Field(k.t, fpSums), k.size
	if k.size > 3 {
		together = 2
	}
	k.overPlanes(func(x, dy reg.GPVirtual) {
		for c := 0; c < k.size; c += together {
			k.dotColumns(fmt.Sprint("columns", c), c, min(together, k.size-c), sums, x, dy)
		}
		k.ADDQ(operand.I32(4*k.Lanes*k.size*k.size), sums)
	})
}

func (k *fourKernel) dotColumns(label string, first, columns int, to, x, dy reg.GPVirtual) {
	acc := make([][2][]reg.VecVirtual, k.size) // by the row of the filter and the half of dy
	place := func(r, c int) operand.Mem {
		return operand.Mem{Base: to, Disp: 4 * k.Lanes * (r*k.size + first + c)}
	}
	for r := range acc {
		acc[r][0] = k.Vecs(columns)
		for c, v := range acc[r][0] {
			k.Move(place(r, c), v)
		}
		if acc[r][1] = acc[r][0]; columns == 1 { // else products would wait for each other
			acc[r][1] = k.Vecs(1)
			k.Zero(acc[r][1][0])
		}
	}
	k.overImages(label, x, dy, func() {
		if first == 0 {
			k.PREFETCHT0(operand.Mem{Base: k.x, Disp: fourAhead})
			k.PREFETCHT0(operand.Mem{Base: k.y, Disp: fourAhead})
		}
		var dy [2][]reg.VecVirtual
		for half := range dy {
			v := k.Vec()
			k.Move(operand.Mem{Base: k.y, Disp: 2 * fourRow * half}, v)
			dy[half] = k.Vecs(columns)
			for c, to := range dy[half] {
				if by := first + c - k.pad; by != 0 {
					k.moved(by, v, to)
				} else {
					dy[half][c] = v
				}
			}
		}
		k.eachView(func(v reg.VecVirtual, seen func(func(half, r int))) {
			seen(func(half, r int) {
				for c, dy := range dy[half] {
					k.Fma(v, dy, acc[r][half][c])
				}
			})
		})
	})
	for r := range acc {
		for c, v := range acc[r][0] {
			if columns == 1 {
				k.Add(acc[r][1][0], v, v)
			}
			k.Move(v, place(r, c))
		}
	}
}
