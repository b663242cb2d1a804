//go:build race

package sdktest

// raceEnabled makes the suites skip large buffers.
const raceEnabled = true
