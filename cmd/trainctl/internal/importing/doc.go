// Package importing is the command "trainctl import": it makes a configuration and weights of a network in the ONNX format.
//
// It imports cmd/trainctl/internal/cli, core/app, core/base/bytesize, core/base/durable, core/onnx/source, core/onnx/importer and core/train/checkpoint.
package importing
