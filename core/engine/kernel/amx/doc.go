// Package amx multiplies matrices of bfloat16 with float32 sums by Intel's Advanced Matrix Extensions: Xeon processors from
// Sapphire Rapids on have eight registers of 16 rows of 64 bytes, tiles, and an instruction that multiplies two of them in
// 16 cycles: 16 times as many multiply-adds as of float32 (Intel, "Software Developer's Manual", volume 1, chapter 18).
//
// A tile of A has rows of up to 32 elements next to each other. One of B has a row for each two of them, with a pair of
// elements for each of up to 16 columns, as packed panels of pairs have. Subnormal numbers count as zeros, and a sum is
// rounded to nearest even after each pair, as with VDPBF16PS, but pairs' order is the tile's.
//
// It imports core/engine/kernel. Start with product.go.
package amx
