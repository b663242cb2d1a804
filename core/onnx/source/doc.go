// Package source reads files of the ONNX format (https://onnx.ai/onnx/repo-docs/IR.html): their nodes, and
// their tensors in the file itself or in files beside it. It trusts nothing in a file: sizes are checked
// before memory is allocated, and no path leads out of the file's folder.
//
// It imports core/tensor and core/onnx/pb. Start with read.go.
package source
