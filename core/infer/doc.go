// Package infer runs trained models: model.go loads its weights and binds it to a device,
// decoder.go computes the next token of a text and keeps the keys and values of earlier ones,
// sampler.go chooses among the tokens, text.go turns them into text as they come, and generate.go
// is the loop over these three.
//
// It imports core/base, core/tensor, core/sdk, core/engine and, of core/train, checkpoint and replica.
// Start with generate.go.
package infer
