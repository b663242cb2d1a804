// Package text serves windows of tokens for language models, from text files or from files of
// tokens: a sample is `context` tokens, its target the same one token later.
//
// Files are mapped into memory (mapped.go). Text is encoded when it is opened (encode.go), except
// with the tokenizer "bytes", where bytes are the tokens; token files are read in place (bin.go). A
// stream (stream.go) joins all files, and the splits are two parts of it.
//
// It imports core/base, core/engine/kernel/random, core/sdk and core/tensor. Start with text.go.
package text
