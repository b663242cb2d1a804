// Package schedulers runs jobs under real batch systems and launchers: Slurm with two
// nodes on the loopback, Open MPI, MPICH and torchrun. The scripts beside the test do what
// a user does; docs/clusters.md quotes them. The module in testdata/manifests holds the Kubernetes
// objects against the published types.
//
// The package has only a test, and skips what is not installed.
package schedulers
