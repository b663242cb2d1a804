// Package contract has the types that the engine and its plugins agree on: the
// precision policy, device memory that a backend may map, and the names of
// collectives.
//
// It is independent of the wire protocol: the compiler (core/engine/plan), the devices
// and the optimizers import it without importing gRPC or plugins. The author of a plugin
// imports core/sdk, which has the same types under the same names, and the code that
// serves and transmits them.
//
// It imports core/tensor and nothing else of this module.
//
// Start with collective.go.
package contract
