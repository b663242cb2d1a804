// Package kerneltest is what the tests of kernels share: data to run them on, the
// dispatch levels, and comparisons. Nothing but tests imports it.
//
// It imports core/tensor and core/engine/kernel. Start with kerneltest.go.
package kerneltest
