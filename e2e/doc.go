// Package e2e holds the end-to-end tests. They build trainctl, run it as a user
// does, and check exit codes, output, files, and processes.
//
// Each topic is a package of its own, so that none comes near the ten minutes that
// go test gives a package, also on two slow cores:
//
//   - e2e/mnist trains the main job on real MNIST,
//   - e2e/parity compares results with PyTorch and between settings,
//   - e2e/elastic lets ranks leave and join a running job,
//   - e2e/nodes runs jobs of several machines,
//   - e2e/gpu runs on fake GPUs,
//   - e2e/failures checks what a failure shows and what a run survives,
//   - e2e/schedulers runs under Slurm and MPI.
//
// This package has the rest: data sets, what is done with a trained model, how ranks are
// started, what a terminal shows, and files beside the results.
//
// e2e/rig starts and observes runs, for these tests and for the fault matrix in
// e2e/faults. The packages have only tests.
package e2e
