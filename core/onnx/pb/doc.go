// Package pb has the messages of the ONNX format, version 1.23.2, generated from onnx.proto, which
// is published at https://github.com/onnx/onnx under the Apache License 2.0 (file LICENSE) and unchanged here.
//
// It imports nothing else of this module. Start with onnx.proto.
package pb

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go_opt=Monnx.proto=github.com/trainctl/trainctl/core/onnx/pb onnx.proto
