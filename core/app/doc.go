// Package app wires trainctl together with go.uber.org/fx. It is the only
// package that knows fx: every constructor here and below works without it.
//
// A worker is an fx app of one module per concern (modules.go). What a test or
// a site wants different is replaced there: fx.Replace swaps the backend for
// one in memory, fx.Decorate wraps the file system. The launcher (run.go) is
// plain code: it checks, spawns, watches and reports.
//
// It imports all of core; cmd/trainctl alone imports it. Start with run.go for
// the launcher, worker.go for a rank.
package app
