// Package flight reads the flight records of a run: what every rank's backend
// did last. core/plugin/host writes them into the run directory while the run goes on,
// and they outlive it however it ends.
//
// It imports core/base/shm, core/contract, core/sdk and core/tensor. Start with flight.go.
package flight
