// Package app wires trainctl together with go.uber.org/fx. It is the only package
// that imports fx: every constructor here and below works without it.
//
// A worker is an fx app with one module per concern (modules.go). A test or a site
// replaces parts of it: fx.Replace swaps the backend for one in memory, fx.Decorate
// wraps the file system. The launcher (run.go) is plain code: it checks, spawns,
// watches and reports.
//
// It imports all of core; only package trainctl and cmd/trainctl import it. Start with run.go for the launcher,
// worker.go for a rank.
package app
