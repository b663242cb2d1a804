// Package config reads the one TOML file that describes a run.
//
// Every package owns the struct of its table, with its defaults and its own
// checks; this package composes them into [File], decodes strictly, adds the
// checks that need several tables, and reports all problems at once, each
// with file, line, column, excerpt and fix.
//
// The caller's duties, in order: [Load] with the overrides from the command
// line; print the [*Error] it may return, or the Warnings of the [Config];
// once the world size is known, ask [Config.PerRankBatch]; write
// [Config.Resolved] into the run directory, so that the run can be repeated.
//
// Paths inside the file (plugins by path, model.init, run.dir) are relative to
// the working directory of the process, not to the file: the same file names
// the same data whether it is read from a path or from standard input.
//
// It imports the packages whose tables it reads: core/base/usererr,
// core/engine, core/job, core/plugin/host, core/report/event, core/sdk and
// core/train; and docs, for the descriptions of keys. Start with file.go.
package config
