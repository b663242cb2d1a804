package launch

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// spawner starts processes from one thread that lives until close: Linux sends
// a child its parent-death signal when the thread that started it ends, which
// for any other thread of a Go program may be at any time (golang/go#27505).
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
	s.work <- func() { err <- family.start(cmd) }
	return <-err
}

// close must come after the last child has ended.
func (s *spawner) close() {
	close(s.work)
	<-s.done
}

// family knows the children of this process that the package started, so that
// whatever else turns up as a child is an orphan of theirs. It is one for the
// process, as children are.
var family = &kin{ours: map[int]bool{}}

type kin struct {
	mu   sync.Mutex
	runs int // launchers at work in this process
	ours map[int]bool
}

func (k *kin) enter() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runs++; k.runs == 1 {
		setSubreaper(true)
	}
}

func (k *kin) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runs--; k.runs == 0 {
		setSubreaper(false)
	}
}

// start registers the child before anybody can take it for an orphan.
func (k *kin) start(cmd *exec.Cmd) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	k.ours[cmd.Process.Pid] = true
	return nil
}

func (k *kin) forget(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.ours, pid)
}

// strangers are children that are no rank: the caller's own before the ranks
// start, orphans of the ranks after.
func (k *kin) strangers() map[int]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	found := map[int]bool{}
	for _, pid := range children() {
		if !k.ours[pid] {
			found[pid] = true
		}
	}
	return found
}

// sweep kills and collects what the ranks left behind, sparing the caller's own
// children: those from before, and those in the caller's own process group, in
// which no descendant of a rank is. Killing one may bring up its children
// in turn, hence the rounds; each gives the kernel time.
func (k *kin) sweep(before map[int]bool) (killed map[int]bool) {
	killed = map[int]bool{}
	for range 200 {
		left := 0
		for pid := range k.strangers() {
			group, err := syscall.Getpgid(pid)
			if before[pid] || err != nil || group == syscall.Getpgrp() {
				continue
			}
			left++
			killed[pid] = true
			killOrphan(pid)
		}
		if left == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return killed
}
