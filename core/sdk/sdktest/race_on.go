//go:build race

package sdktest

// raceEnabled makes the suites leave out what only costs time then.
const raceEnabled = true
