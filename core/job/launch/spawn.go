package launch

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// spawner starts processes from one OS thread that lives until close. Linux sends
// a child its parent-death signal when the thread that started it ends, and other
// threads of a Go program may end at any time (golang/go#27505).
type spawner struct {
	work chan func()
	done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for f := range s.work {
			f()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	err := make(chan error, 1)
	s.work <- func() { err <- ownChildren.start(cmd) }
	return <-err
}

// close must be called after the last child has ended.
func (s *spawner) close() {
	close(s.work)
	<-s.done
}

// ownChildren holds the children of this process that the package started. Any other
// new child is an orphan of one of them. There is one per process, since children
// belong to the process.
var ownChildren = &childRegistry{ours: map[int]bool{}}

type childRegistry struct {
	mu   sync.Mutex
	runs int // launchers running in this process
	ours map[int]bool
}

func (c *childRegistry) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs++; c.runs == 1 {
		setSubreaper(true)
	}
}

func (c *childRegistry) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs--; c.runs == 0 {
		clear(c.ours) // ranks have ended, and nobody looks for orphans any more
		setSubreaper(false)
	}
}

// StartChild starts a process that does not belong to a rank: it is not killed with what the
// ranks leave behind, even if it is started while they run.
func StartChild(cmd *exec.Cmd) error { return ownChildren.start(cmd) }

// start starts the child and registers it, under the lock, so that it is never
// taken for an orphan.
func (c *childRegistry) start(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	c.ours[cmd.Process.Pid] = true
	return nil
}

func (c *childRegistry) forget(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ours, pid)
}

// unregistered are the children that are not ranks: the caller's own before the ranks
// start, and also orphans of ranks after.
func (c *childRegistry) unregistered() map[int]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[int]bool{}
	for _, pid := range children() {
		if !c.ours[pid] {
			found[pid] = true
		}
	}
	return found
}

// killOrphans kills and reaps the orphans of the ranks and returns those that still ran.
// Killing an orphan may reparent its children to this process, so this repeats.
func (c *childRegistry) killOrphans(before map[int]bool) (killed map[int]bool) {
	killed = map[int]bool{}
	for range 200 {
		left := c.reapOrphans(before)
		for _, pid := range left {
			killed[pid] = true
			killOrphan(pid)
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return killed
}

// reapOrphans reaps the orphans of the ranks that have ended and returns the others. It
// leaves the caller's own children alone: those from before, and those in the caller's
// process group, which contains no descendant of a rank.
func (c *childRegistry) reapOrphans(before map[int]bool) (running []int) {
	for pid := range c.unregistered() {
		group, err := syscall.Getpgid(pid)
		if before[pid] || err != nil || group == syscall.Getpgrp() {
			continue
		}
		if !reapOrphan(pid) {
			running = append(running, pid)
		}
	}
	return running
}
