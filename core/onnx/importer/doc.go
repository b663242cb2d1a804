// Package importer translates networks in the ONNX format to [[model.layers]] and weights.
//
// A node becomes a value that is described, not computed (value.go): a constant, the call of a layer, the
// elements of another value in another order (view.go), or a function of other values (expr.go). Constants
// are computed at once (fold.go). Only when the output asks for its inputs are layers written (emit.go), so
// that what exporters write as many operators, such as GELU, layer norm or attention, is recognised as one
// layer: functions by their values, and attention by which elements it multiplies, whatever operators brought them
// there. Layers are named after the weights they read (names.go).
//
// It imports core/onnx/source, core/tensor and, of core/engine, graph, nn and op. Start with importer.go.
package importer
