// Package synthetic serves computed data: any shape, any number of samples, no
// start-up cost, and still something to learn.
//
// Every element is a signal of amplitude 1 plus noise, uniform in ±√3. With
// targets = "class" the signal is a pattern of the sample's class; with
// "regression" there is no signal, and the target is a fixed linear map of the
// noise. Sample i of a split depends only on (seed, split, i).
//
// It imports core/base/usererr, core/engine/kernel, core/sdk and core/tensor.
// Start with synthetic.go.
package synthetic
