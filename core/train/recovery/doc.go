// Package recovery lets a run go on when its backend's process group breaks: all
// ranks form a new group, with new plugins, and repeat what was under way.
//
// Its walk begins at Recovery.Do in recovery.go, through which the training loop
// makes everything that ranks do together. progress.go finds out, from what all
// ranks tell of themselves, where they go on. group.go forms process groups, the
// first one of a run included.
//
// It imports core/plugin/host for the backend and core/train/ddp for the numbers of
// collectives, and knows nothing of models, data and optimizers: what there is
// to roll back and to send again it asks of a Run.
package recovery
