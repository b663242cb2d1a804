// Package ddptest has what tests of the training loop use in place of a backend's
// process: see backend.go.
//
// It imports core/base/shm and core/sdk.
package ddptest
