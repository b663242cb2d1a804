//go:build !portable

package launch

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A descendant that left its group and session goes with its rank.
func TestOrphansAreKilled(t *testing.T) {
	var all []int
	ready := make(chan bool, 1)
	go func() {
		<-ready
		for _, p := range all[:1] {
			syscall.Kill(p, syscall.SIGKILL)
		}
	}()
	res, log := run(t, Options{Nproc: 1, Grace: time.Second, Command: asRole("parent"), OnEvent: func(_ int, line []byte) {
		var e struct{ PID int }
		json.Unmarshal(line, &e)
		if all = append(all, e.PID); len(all) == 2 {
			ready <- true
		}
	}})
	for _, p := range all {
		if alive(p) {
			t.Errorf("process %d outlived Run", p)
		}
	}
	if res.ExitCode != ExitWorker || !strings.Contains(log, "left behind") {
		t.Errorf("%+v\n%s", res, log)
	}
}
