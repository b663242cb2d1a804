package launch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/job/rank"
)

// The earliest failure is the root cause, in whatever order the ends are read.
func TestEarliestFailureIsTheRootCause(t *testing.T) {
	now := time.Now()
	ws := make([]*worker, 4)
	for r := range ws {
		ws[r] = &worker{world: rank.World{Rank: r}}
	}
	a := &attempt{alive: map[*worker]bool{}, exits: make(chan exit, len(ws))}
	for _, w := range ws {
		a.alive[w] = true
	}
	a.exits <- exit{w: ws[1], code: 0, at: now}
	a.exits <- exit{w: ws[2], code: 1, at: now.Add(1)}
	a.exits <- exit{w: ws[3], code: 1, at: now.Add(9)}
	if e := a.earliest(exit{w: ws[0], code: 1, at: now.Add(5)}); e.w != ws[2] || len(a.ended) != 3 {
		t.Errorf("root cause is rank %d, %d others", e.w.world.Rank, len(a.ended))
	}
}

// A rank that the others go on without leaves nothing in the launcher, however often ranks come and go.
func TestRanksThatAreGoneAreForgotten(t *testing.T) {
	s := &sink{w: &buffer{}}
	a := &attempt{l: &launcher{o: Options{Elastic: true}, sink: s}, alive: map[*worker]bool{}}
	for r := range 2 {
		a.workers = append(a.workers, &worker{world: rank.World{Rank: r}, body: &thread{}, log: openOutput(nil, "", r, false, s)})
	}
	a.alive[a.workers[0]] = true
	a.left(exit{w: a.workers[1], code: 1})
	a.finishing.Wait()
	if len(a.workers) != 1 || a.workers[0].world.Rank != 0 {
		t.Errorf("%d workers are left", len(a.workers))
	}
}

// A launcher whose store is gone before an attempt began did not meet the others.
func TestCodeOfAnAttemptThatCouldNotBegin(t *testing.T) {
	for err, want := range map[error]int{
		fmt.Errorf("nodes: %w", rank.ErrStoreLost):    ExitRendezvous,
		fmt.Errorf("nodes: %w", &rank.TimeoutError{}): ExitRendezvous,
		fmt.Errorf("run: %w", context.Canceled):       ExitTerminated,
		errors.New("no such file"):                    ExitFailed,
	} {
		if got := failedCode(err); got != want {
			t.Errorf("%v: exit code %d, want %d", err, got, want)
		}
	}
}
