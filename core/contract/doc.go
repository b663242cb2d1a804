// Package contract has the types that the engine and its plugins agree on: the
// precision policy, device memory that a backend may map, and the names of
// collectives.
//
// It knows no wire. The compiler (core/engine/plan), the devices and the optimizers
// import it, and nothing of gRPC or plugins with it. A plugin's author imports
// core/sdk, which has the same types under the same names, what serves them,
// and the calls that carry them.
//
// It imports core/tensor and nothing else of this module.
//
// Start with collective.go.
package contract
