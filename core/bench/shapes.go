package bench

import (
	"context"
	"runtime"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/engine/kernel/conv"
)

// manyShapes are convolutions of the networks in bench/models at batch 64, and others
// of their kinds.
var manyShapes = []conv.Shape{
	// LeNet-5; the last has one pixel of output.
	square(64, 1, 28, 6, 5, 1), valid(64, 6, 14, 16, 5, 1), valid(64, 16, 5, 120, 5, 1),
	// Few and odd channels, and filters that are not square.
	square(64, 3, 32, 13, 3, 1), square(64, 43, 8, 61, 3, 1), square(64, 7, 32, 13, 3, 1), oblong(64, 32, 16, 32, 1, 7), oblong(64, 32, 16, 32, 7, 1),
	// Depthwise and grouped.
	depthwise(64, 32, 32, 3, 1), depthwise(64, 64, 32, 3, 2), depthwise(64, 128, 16, 3, 1), depthwise(64, 256, 8, 3, 1), depthwise(64, 13, 32, 3, 2),
	depthwise(64, 29, 16, 5, 1), depthwise(64, 43, 16, 3, 2), depthwise(64, 24, 8, 7, 1), depthwise(64, 48, 4, 7, 1), depthwise(64, 96, 14, 7, 1),
	dilated(depthwise(64, 32, 32, 3, 1), 2), grouped(square(64, 64, 16, 64, 3, 1), 8), grouped(square(64, 64, 16, 64, 3, 2), 8),
	// 1x1.
	square(64, 32, 32, 64, 1, 1), square(64, 13, 16, 29, 1, 1), square(64, 29, 16, 43, 1, 1), square(64, 128, 16, 128, 1, 1), square(64, 256, 8, 256, 1, 1),
	square(64, 24, 8, 96, 1, 1), square(64, 96, 8, 24, 1, 1), square(64, 48, 4, 192, 1, 1), square(64, 192, 4, 48, 1, 1), square(64, 128, 8, 512, 1, 1),
	square(64, 160, 7, 64, 1, 1), square(64, 32, 16, 64, 1, 2), square(64, 29, 14, 43, 1, 2),
	// Stems, and layers of EfficientNet and ShuffleNet.
	square(64, 3, 64, 16, 3, 2), square(16, 3, 64, 64, 7, 2), depthwise(64, 48, 28, 5, 2), grouped(square(64, 96, 14, 96, 1, 1), 3),
	// Patches.
	valid(64, 3, 32, 24, 4, 4), valid(64, 3, 32, 128, 4, 4), valid(64, 24, 8, 48, 2, 2), valid(16, 3, 112, 96, 16, 16),
}

// valid is a convolution of square images and filters without padding.
func valid(n, c, hw, k, r, stride int) conv.Shape {
	p := square(n, c, hw, k, r, stride)
	p.PadH, p.PadW = 0, 0
	return p
}

func oblong(n, c, hw, k, r, s int) conv.Shape {
	return conv.Shape{N: n, C: c, H: hw, W: hw, K: k, R: r, S: s, StrideH: 1, StrideW: 1, PadH: r / 2, PadW: s / 2}
}

func grouped(p conv.Shape, groups int) conv.Shape {
	p.Groups = groups
	return p
}

func depthwise(n, c, hw, r, stride int) conv.Shape {
	return grouped(square(n, c, hw, c, r, stride), c)
}

// dilated keeps the size of the image.
func dilated(p conv.Shape, by int) conv.Shape {
	p.DilH, p.DilW, p.PadH, p.PadW = by, by, p.PadH*by, p.PadW*by
	return p
}

// AlgorithmResult is a convolution by every algorithm that takes it.
type AlgorithmResult struct {
	Name   string             `json:"kernel"`
	Shape  string             `json:"shape"`
	Times  map[string]float64 `json:"min_us"`
	Chosen string             `json:"chosen"`
	Best   string             `json:"best"`
	// Loss is the chosen algorithm's time per that of the best.
	Loss float64 `json:"loss"`
}

// Algorithms measures the convolutions whose name or shape contains match by every
// algorithm, as Kernels does.
func Algorithms(ctx context.Context, match string, budget time.Duration, each func(AlgorithmResult) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, p := range append(convolutions[:len(convolutions):len(convolutions)], manyShapes...) {
		for _, d := range directionsOf(&p) {
			name := "conv2d" + d.suffix
			if !strings.Contains(name+" "+p.String(), match) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := each(algorithmsOf(name, p, d, budget)); err != nil {
				return err
			}
		}
	}
	return nil
}

func algorithmsOf(name string, p conv.Shape, d direction, budget time.Duration) AlgorithmResult {
	r := AlgorithmResult{Name: name, Shape: p.String(), Times: map[string]float64{}, Chosen: conv.Choose(&p, d.Direction).String()}
	for a := conv.Columns; a <= conv.Lanes; a++ {
		if !conv.Takes(&p, a, d.Direction) {
			continue
		}
		restore := conv.Force(a)
		k := convCase(name, p, d.run)
		r.Times[a.String()] = micros(repeat(budget, k.Run).percentile(0))
		restore()
		if t := r.Times[r.Best]; r.Best == "" || r.Times[a.String()] < t {
			r.Best = a.String()
		}
	}
	r.Loss = r.Times[r.Chosen] / r.Times[r.Best]
	return r
}
