package app

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/train"
)

// thread runs a rank on a goroutine of this process, with built-in plugins in this process, too.
func (j *job) thread(ctx context.Context, p launch.Place) int {
	o := j.Options
	o.Sinks, o.Resume, o.SaveAsked, o.InProcess = nil, j.continueFrom(p.World), p.SaveAsked, true
	o.place = j.place()
	o.place.thread, o.place.events, o.place.joins = &p, p.Events, p.Joins
	err := Worker(ctx, o)
	if text := LastWords(err); text != "" {
		fmt.Fprintln(p.Log, text)
	}
	j.threads.set(p.World.Rank, err)
	if err == nil {
		return launch.ExitOK
	}
	return RankCode(err)
}

// threadErrors are the errors of ranks that are threads, from their last start.
type threadErrors struct {
	mu     sync.Mutex
	byRank map[int]error
}

func (t *threadErrors) set(rank int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byRank == nil {
		t.byRank = map[int]error{}
	}
	t.byRank[rank] = err
}

func (t *threadErrors) errorOf(rank int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byRank[rank]
}

// LastWords is what a rank prints as it ends; "" if there is nothing that its launcher does not know.
func LastWords(err error) string {
	switch {
	case err == nil, errors.As(err, new(Told)):
		return ""
	case errors.As(err, new(*train.Preempted)), errors.As(err, new(Interrupted)): // as requested
		return err.Error()
	}
	return "error: " + err.Error()
}

// checkThreads refuses what only ranks that are processes can do.
func (j *job) checkThreads() error {
	const fix = `set launch.ranks to "processes"`
	c := j.Config
	switch {
	case !c.Launch.AreThreads():
	case j.machine.Device != "cpu":
		return usererr.Errorf("launch.ranks", fix+` or run.device to "cpu"`, "ranks of one process compute on the CPU, and run.device is %s here", j.machine.Device)
	case len(c.Faults.At) > 0:
		return usererr.Errorf("faults.at", fix, "faults end processes, and all ranks are one process")
	}
	return nil
}
