// Package tokenizer turns text into tokens and back: bytes, characters, and byte pair
// encodings as Hugging Face's tokenizer.json describes them.
//
// It imports core/base/usererr. Start with tokenizer.go, and with file.go for
// tokenizer.json, whose parts are in the order in which text passes them: added.go,
// normalizer.go, pretokenizer.go, bpe.go, and for the way back decoder.go.
package tokenizer
