//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A disk that is full for a while costs what was said meanwhile, and no more:
// events and logs go on in whole lines, with a word about the gap.
func TestFullDiskRecovers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	runs := filepath.Join(p.dir, "runs")
	must(t, os.Mkdir(runs, 0o755))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", runs).CombinedOutput(); err != nil {
		t.Skipf("only root can mount a small file system: %v: %s", err, out)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(runs, syscall.MNT_DETACH)) })
	r := p.underWay(t, "metrics.tensorboard=true", "train.log_freq=1")
	events := filepath.Join(p.runDir(1), "events.jsonl")
	filler := filepath.Join(runs, "filler")
	f, err := os.Create(filler)
	must(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	must(t, f.Close())
	eventually(t, "the run to say that the disk is full", func() bool {
		said := r.stderr.String()
		return strings.Contains(said, "events are not written until there is disk space") && strings.Contains(said, "rank-0.log") && strings.Contains(said, "until it can be written its lines appear only here")
	})
	must(t, os.Remove(filler))
	var text []byte
	eventually(t, "events to go on", func() bool {
		text, _ = os.ReadFile(events)
		_, after, found := bytes.Cut(text, []byte("events are missing here"))
		return found && bytes.Contains(after, []byte(`"event":"step"`))
	})
	eventually(t, "the log of rank 0 to go on", func() bool {
		_, after, found := strings.Cut(p.rankLog(t, 1, 0), "lines are missing here, because they could not be written: ")
		return found && strings.Contains(after, "  loss ")
	})
	kill(t, r.cmd.Process.Pid, syscall.SIGTERM)
	r.wait(t).expect(t, 143)
	text, err = os.ReadFile(events)
	must(t, err)
	for line := range bytes.Lines(text) {
		if !json.Valid(line) {
			t.Errorf("no whole event: %q", line)
		}
	}
	stamp := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z `)
	for line := range strings.Lines(p.rankLog(t, 1, 0)) {
		if at := stamp.FindAllStringIndex(line, -1); len(at) != 1 || at[0][0] != 0 || !strings.HasSuffix(line, "\n") {
			t.Errorf("no whole line of a log: %q", line)
		}
	}
}
