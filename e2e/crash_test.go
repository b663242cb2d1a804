//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// A rank or a plugin that ends by SIGSEGV is reported with the signal's name and our frames. Registers and other goroutines are only in the rank's log.
func TestSegmentationFaultIsToldInShort(t *testing.T) {
	t.Parallel()
	for who, pid := range map[string]func(*place) int{
		"rank":   func(p *place) int { return p.Worker(t, 1).PID },
		"plugin": func(p *place) int { return p.PluginOf(t, "dataset", 1).PID },
	} {
		p := newPlace(t)
		r := p.StartEndless(t)
		rig.Signal(t, pid(p), syscall.SIGSEGV)
		res := r.Wait(t).Expect(t, 5).OneFailureBlock(t).Prints(t, "rank      : 1", "SIGSEGV: segmentation violation, sent by a process")
		matches(t, res, `\| +(core|cmd|main)\S* at (core|plugins|cmd)/\S+\.go:\d+`)
		if regexp.MustCompile(`rip +0x|gp=0x|\[running\]`).MatchString(res.Stderr) {
			t.Errorf("%s: the dump is on the terminal:\n%s", who, res.Stderr)
		}
		log, err := os.ReadFile(filepath.Join(p.RunDir(1), "logs", "rank-1.log"))
		if err != nil || !strings.Contains(string(log), "goroutine 1 ") || !regexp.MustCompile(`rip +0x`).Match(log) {
			t.Errorf("%s: %v; its log lacks the dump:\n%s", who, err, log)
		}
	}
}
