// Package recovery lets a run continue when its backend's process group breaks: all
// ranks form a new group, with new plugins, and repeat the interrupted collectives.
//
// The training loop runs everything that ranks do together through Recovery.Do in
// recovery.go. progress.go determines from the progress of all ranks where they
// continue. group.go forms process groups, including the first one of a run. The
// package knows nothing about models, data or optimizers: a Run rolls them back and
// broadcasts them again.
//
// In an elastic job (elastic.go) the new group is of the ranks that are left, and the Run becomes a
// run of that many ranks before the stage is repeated. Between two steps the ranks admit others.
//
// It imports core/job/rank, core/plugin/host, core/report/event, core/report/timeline, core/sdk and
// core/train/ddp.
// Start with recovery.go.
package recovery
