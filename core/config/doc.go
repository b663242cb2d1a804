// Package config reads the one TOML file that describes a run.
//
// Every package owns the struct of its table, with defaults and checks. This
// package composes them into [File], decodes strictly, adds the checks that
// need several tables, and reports all problems at once, each with file, line,
// column, excerpt and fix.
//
// The caller calls [Load] with the overrides from the command line; prints the
// [*Error] it may return, or the Warnings of the [Config]; calls
// [Config.Divide] once the world size is known; and writes
// [Config.Resolved] to the run directory, so that the run can be repeated.
//
// Paths inside the file (plugins by path, model.init, run.dir) are relative to
// the working directory of the process, not to the file: the same file refers to
// the same data whether it is read from a path or from standard input.
//
// It imports the packages whose tables it reads: core/base/pattern, core/base/similar, core/base/usererr,
// core/engine, core/job, core/plugin, core/report/event, core/sdk and
// core/train; and docs, for the descriptions of keys. Start with file.go.
package config
