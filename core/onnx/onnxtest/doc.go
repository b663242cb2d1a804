// Package onnxtest has the networks that tests export to ONNX and import from it, and computes their outputs. Nothing but tests
// imports it.
//
// It imports core/base/rng, core/tensor and, of core/engine, cpu, graph, nn, op and plan. Start with networks.go.
package onnxtest
