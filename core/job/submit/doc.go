// Package submit writes what a batch system needs to run a configuration: a Slurm batch
// script, Kubernetes objects, or a script for mpirun. The texts are in templates.
//
// It imports core/base/hostnet and core/base/usererr. Start with submit.go.
package submit
