// Package nntest has weights for tests of models: those of core/engine/nn/testdata/named.py, which
// follow from their names and so need no files. Nothing but tests imports it.
//
// It imports core/base/rng, core/tensor and core/engine/graph. Start with weights.go.
package nntest
