// Package e2e holds the end-to-end tests. They build trainctl, run it as a user
// does, and check exit codes, output, files, and processes.
//
// e2e/rig starts and observes runs, for these tests and for the fault matrix in
// e2e/faults. The package has only tests: parity_*_test.go compare results with
// PyTorch and between settings, faults_*_test.go check what a failure shows, and
// gpu*_test.go run on fake GPUs.
package e2e
