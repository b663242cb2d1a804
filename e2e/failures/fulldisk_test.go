//go:build linux

package failures

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

	"github.com/trainctl/trainctl/e2e/rig"
)

// A disk that is full for a while loses what was written meanwhile, and no more: events and
// logs continue in whole lines, and one line reports the gap.
func TestFullDiskRecovers(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	runs := filepath.Join(p.Dir, "runs")
	rig.Must(t, os.Mkdir(runs, 0o755))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", runs).CombinedOutput(); err != nil {
		t.Skipf("only root can mount a small file system: %v: %s", err, out)
	}
	t.Cleanup(func() { rig.Must(t, syscall.Unmount(runs, syscall.MNT_DETACH)) })
	r := p.StartEndless(t, "metrics.tensorboard=true", "train.log_freq=1")
	events := filepath.Join(p.RunDir(1), "events.jsonl")
	filler := filepath.Join(runs, "filler")
	f, err := os.Create(filler)
	rig.Must(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	rig.Must(t, f.Close())
	rig.Eventually(t, "the run to say that the disk is full", func() bool {
		said := r.Stderr.String()
		return strings.Contains(said, "events are not written until there is disk space") && strings.Contains(said, "rank-0.log") && strings.Contains(said, "until it can be written its lines appear only here")
	})
	rig.Must(t, os.Remove(filler))
	var text []byte
	rig.Eventually(t, "events to go on", func() bool {
		text, _ = os.ReadFile(events)
		_, after, found := bytes.Cut(text, []byte("events are missing here"))
		return found && bytes.Contains(after, []byte(`"event":"step"`))
	})
	rig.Eventually(t, "the log of rank 0 to go on", func() bool {
		_, after, found := strings.Cut(p.RankLog(t, 1, 0), "lines are missing here, because they could not be written: ")
		return found && strings.Contains(after, "  loss ")
	})
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGTERM)
	r.Wait(t).Expect(t, 143)
	text, err = os.ReadFile(events)
	rig.Must(t, err)
	for line := range bytes.Lines(text) {
		if !json.Valid(line) {
			t.Errorf("no whole event: %q", line)
		}
	}
	stamp := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z `)
	for line := range strings.Lines(p.RankLog(t, 1, 0)) {
		if at := stamp.FindAllStringIndex(line, -1); len(at) != 1 || at[0][0] != 0 || !strings.HasSuffix(line, "\n") {
			t.Errorf("no whole line of a log: %q", line)
		}
	}
}
