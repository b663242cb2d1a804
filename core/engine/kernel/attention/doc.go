// Package attention computes softmax(q·kᵀ·scale)·v of one head, and its gradients, a
// tile of queries and keys at a time: no matrix of all queries and keys exists.
//
// Forward keeps a running maximum and sum per query and rescales what it has
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018), and
// leaves log Σexp per query, from which backward makes each tile of the softmax again
// (Dao et al., "FlashAttention", 2022). Products are those of package gemm, at
// every level.
//
// It imports core/engine/kernel and its packages elementwise, gemm and random.
// Start with attention.go.
package attention
