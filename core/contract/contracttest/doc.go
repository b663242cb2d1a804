// Package contracttest computes what core/contract promises, as tests compare
// backends with it: slowly, one element after the other.
//
// It imports core/contract and core/tensor. Start with reduce.go.
package contracttest
