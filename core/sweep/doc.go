// Package sweep trains a configuration with several settings, by grid or at random, and compares the
// results.
//
// A [File] describes a sweep. [Open] checks the configuration of every trial, and reads how far an
// earlier process got from the sweep's folder. [Sweep.Run] starts trials as processes of trainctl run
// while cores are free, reads their evaluations from their run directories, and stops those that the
// median of the others beats. [Sweep.Result] is the table, and [Sweep.Report] the page of the best.
//
// sweep.json in the folder is replaced before and after each thing that happens to a trial. What a
// trial itself has reached is in its run directories. So a sweep that was killed continues: what ended
// meanwhile is not repeated, and the rest resumes from its checkpoints.
//
// It imports core/base/durable, core/base/rng, core/base/usererr, core/config, core/job/launch,
// core/report, core/train/checkpoint and core/train/metric. Start with run.go.
package sweep
