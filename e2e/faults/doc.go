// Command faults runs the fault matrix of docs/faults.md against the built
// trainctl: "go run ./e2e/faults", with -only, -list, -json and -markdown.
//
// It imports e2e. Start with main.go.
package main
