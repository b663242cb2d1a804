package main

import (
	"math"

	"github.com/trainctl/trainctl/custom"
)

// focal is −(1−p)^gamma·log p of the class's probability p, which gives easy samples less weight (Lin et al., 2017).
var focal = custom.Loss{
	Name: "focal", Doc: "focal loss of logits against class indices",
	Keys:    []custom.Key{{Name: "focal_gamma", Default: 2.0, Range: [2]float64{0, 10}, Doc: "how much less weight"}},
	Float32: focalRow[float32], Float64: focalRow[float64],
}

func focalRow[T custom.Number](r custom.Row[T]) float64 {
	gamma, largest, sum := r.Args.Float("focal_gamma"), r.Output[0], 0.0
	for _, v := range r.Output {
		largest = max(largest, v)
	}
	for _, v := range r.Output {
		sum += math.Exp(float64(v - largest))
	}
	log := float64(r.Output[r.Class]-largest) - math.Log(sum)
	p := math.Exp(log)
	rest := -math.Expm1(log)
	if r.Grad != nil { // dp/dx is p·(1 of the class − softmax)
		slope := math.Pow(rest, gamma)
		if gamma > 0 {
			slope -= gamma * math.Pow(rest, gamma-1) * p * log
		}
		for i, v := range r.Output {
			r.Grad[i] = T(slope * math.Exp(float64(v-largest)) / sum)
		}
		r.Grad[r.Class] -= T(slope)
	}
	return -math.Pow(rest, gamma) * log
}
