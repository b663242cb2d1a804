//go:build linux

package main

import (
	"fmt"
	"regexp"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/e2e/rig"
)

// stalled matches the progress line for a rank that makes no progress.
var stalled = regexp.MustCompile(`no step for \d+s: rank 1 \(pid \d+\) is stopped by a signal`)

func stopRank(t *trial) {
	p := newPlace(t)
	args := append(rig.Steps800(`backend.timeout="50s"`, `dataset.timeout="50s"`), "--progress", "plain")
	a := p.Complete(t, 1, args...)
	r := p.Start(t, args...)
	p.WaitForSteps(t, r, 2, 20)
	w := p.Worker(t, 1)
	at := time.Now()
	rig.Signal(t, w.PID, syscall.SIGSTOP)
	rig.Eventually(t, "the progress to name the stalled rank", func() bool { return stalled.MatchString(r.Stderr.String()) })
	t.soon("rank 1 was named", time.Since(at), 15*time.Second)
	rig.Signal(t, w.PID, syscall.SIGCONT)
	t.ended(r.Wait(t), 0)
	rig.SameParams(t, a, p.Summary(t, 2))
	t.saw("equal bits after SIGCONT")
}

func stopPlugins(t *trial) {
	for kind, name := range map[string]string{"backend": "tcp", "dataset": "synthetic", "precision": "amp"} {
		p := newPlace(t)
		r := p.StartEndless(t, rig.FP16)
		at := time.Now()
		rig.Signal(t, p.PluginOf(t, kind, 1).PID, syscall.SIGSTOP)
		res := r.Wait(t)
		t.ended(res, 5).OneFailureBlock(t).Prints(t, "rank      : 1", fmt.Sprintf("%s plugin %q", kind, name), "it gives no sign of life")
		t.soon("the "+kind+" plugin was named", res.Since(r, at), 10*time.Second)
	}
}
