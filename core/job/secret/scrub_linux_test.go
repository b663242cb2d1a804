//go:build !portable

package secret

import (
	"strings"
	"testing"
)

// Linux shows the initial environment of a process in a file.
func TestTakeEmptiesTheInitialEnvironment(t *testing.T) {
	text, got := startWithSecret(t)
	if strings.Contains(got["environ"], text) || got["exposed"] != "<nil>" {
		t.Errorf("/proc/PID/environ shows the secret: %s", got["exposed"])
	}
	for _, other := range []string{"BEFORE=stays", "AFTER=stays"} {
		if !strings.Contains(got["environ"], other) {
			t.Errorf("%s is gone from /proc/PID/environ", other)
		}
	}
}
