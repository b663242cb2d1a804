// Package onnx writes models in the ONNX format (https://onnx.ai/onnx/repo-docs/IR.html), for any ONNX
// runtime: opset 17, weights as initializers under their state-dict names, and a batch dimension of
// any size. A function in images.go, rows.go or attention.go writes each operation; what newer opsets
// have as one operator is composed of operators of opset 17.
//
// It imports core/tensor, core/onnx/pb and, of core/engine, graph and op. Start with onnx.go.
package onnx
