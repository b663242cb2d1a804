package main

import "github.com/trainctl/trainctl/custom"

// lion steps by the sign of an interpolated momentum (Chen et al., 2023, algorithm 2). Its weight decay is decoupled.
var lion = custom.Optimizer{
	Name: "lion", Uses: []string{"betas"}, State: []string{"exp_avg"},
	Defaults: custom.Settings{LR: 1e-4, Betas: [2]float64{0.9, 0.99}},
	Float32:  lionUpdate[float32], Float64: lionUpdate[float64],
}

func lionUpdate[T custom.Number](u custom.Update[T]) {
	lr, decay, b1, b2, average := T(u.LR), T(u.LR*u.WeightDecay), T(u.Betas[0]), T(u.Betas[1]), u.State[0]
	for i, g := range u.Grad {
		u.Weight[i] -= decay * u.Weight[i]
		switch c := b1*average[i] + (1-b1)*g; {
		case c > 0:
			u.Weight[i] -= lr
		case c < 0:
			u.Weight[i] += lr
		}
		average[i] = b2*average[i] + (1-b2)*g
	}
}
