// Package safetensors reads and writes files of the safetensors format, and recognises
// the pickles of torch.save, which it refuses to load.
//
// It imports core/tensor. Start with header.go.
package safetensors
