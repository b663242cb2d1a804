// Package onnx writes models in the ONNX format (https://onnx.ai/onnx/repo-docs/IR.html), for runtimes
// that know nothing of this program: opset 17, weights as initializers under their state-dict
// names, and a batch dimension of any size. Each operation has a form in images.go, rows.go or
// attention.go; what newer opsets have as one operator is written with those of opset 17.
//
// It imports core/tensor, core/onnx/pb and, of core/engine, graph and op. Start with onnx.go.
package onnx
