// Package elastic holds the end-to-end tests of jobs whose number of ranks changes on one
// machine, by restarts or while they run: every sample counts once, and losses and weights
// are those of a run that nothing happened to. With several machines, e2e/nodes has them.
package elastic
