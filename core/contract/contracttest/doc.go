// Package contracttest is the reference implementation of the collectives in
// core/contract, against which tests compare backends. It is simple and slow.
//
// It imports core/contract and core/tensor. Start with reduce.go.
package contracttest
