// Package recovery lets a run go on when its backend's process group breaks: all
// ranks form a new group, with new plugins, and repeat what was under way.
//
// The training loop makes everything that ranks do together through Recovery.Do in
// recovery.go. progress.go finds out, from what all ranks tell of themselves, where
// they go on. group.go forms process groups, the first one of a run included.
// Of models, data and optimizers the package knows nothing: what there is to roll
// back and to send again it asks of a Run.
//
// It imports core/plugin/host, core/report/event, core/sdk and core/train/ddp.
// Start with recovery.go.
package recovery
