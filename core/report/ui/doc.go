// Package ui serves the pages of core/report/page for the runs of a folder while they go on:
// a list, any of them compared, their logs, and buttons that save or stop a run.
//
// It reads run directories alone, so it serves running, finished and foreign runs, and training
// does not know that it is watched. Whoever has the token may see everything and stop runs;
// nobody else gets an answer. Requests that change something must come from its own pages.
//
// It imports core/job/launch, core/report/event, core/report/page, core/report/rundir and core/sdk.
// Start with server.go.
package ui
