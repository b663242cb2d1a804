// Command faults runs the fault matrix of docs/faults.md against the built
// trainctl: "go run ./e2e/faults", with -only, -list, -json and -markdown.
//
// It imports e2e/rig, core/plugin/flight, core/plugin/sandbox, core/report/event and
// core/train/checkpoint. Each cases_*.go file holds the cases of one kind of
// fault, and cases.go the type of a case and the list of all. Start with
// command.go, which parses the flags and runs the chosen cases.
package main
