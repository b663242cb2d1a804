//go:build linux

package e2e

import (
	"fmt"
	"regexp"
	"syscall"
	"time"
)

// stopFaults are processes that stand still.
var stopFaults = []fault{
	{number: 12, name: "SIGSTOP of a rank for a while", run: stopRank, limit: 90 * time.Second,
		promise: "the progress names the stalled rank; it goes on after SIGCONT, with equal bits"},
	{number: 13, name: "SIGSTOP of a plugin for ever", run: stopPlugins, limit: 90 * time.Second,
		promise: "the plugin is named and killed in bounded time, exit 5"},
}

// stalled is what the progress says of a rank that stands still.
var stalled = regexp.MustCompile(`no step for \d+s: rank 1 \(pid \d+\) is stopped by a signal`)

func stopRank(t *trial) {
	p := newPlace(t)
	args := append(lengthy(`backend.timeout="50s"`, `dataset.timeout="50s"`), "--progress", "plain")
	a := p.whole(t, 1, args...)
	r := p.start(t, args...)
	p.trained(t, r, 2, 20)
	w := p.worker(t, 1)
	at := time.Now()
	kill(t, w.pid, syscall.SIGSTOP)
	eventually(t, "the progress to name the stalled rank", func() bool { return stalled.MatchString(r.stderr.String()) })
	t.soon("rank 1 was named", time.Since(at), 15*time.Second)
	kill(t, w.pid, syscall.SIGCONT)
	t.ended(r.wait(t), 0)
	sameParams(t, a, p.summary(t, 2))
	t.saw("equal bits after SIGCONT")
}

func stopPlugins(t *trial) {
	for kind, name := range map[string]string{"backend": "tcp", "dataset": "synthetic", "precision": "amp"} {
		p := newPlace(t)
		r := p.underWay(t, scaled)
		at := time.Now()
		kill(t, p.pluginOf(t, kind, 1).pid, syscall.SIGSTOP)
		res := r.wait(t)
		t.ended(res, 5).oneBlock(t).says(t, "rank      : 1", fmt.Sprintf("%s plugin %q", kind, name), "the process gives no sign of life")
		t.soon("the "+kind+" plugin was named", res.since(r, at), 10*time.Second)
	}
}
