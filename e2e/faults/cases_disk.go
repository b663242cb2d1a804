//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/e2e/rig"
)

func isRoot() string {
	if os.Getuid() != 0 {
		return "only root can mount and make namespaces"
	}
	return ""
}

func hasLoop() string {
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return "this machine has no loop devices"
	}
	for _, program := range []string{"mkfs.ext4", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is not installed"
		}
	}
	return ""
}

// mount mounts a file system for the rest of the case.
func mount(t rig.TB, at, kind, data string, flags uintptr) {
	t.Helper()
	rig.Must(t, os.MkdirAll(at, 0o755))
	rig.Must(t, unix.Mount(kind, at, kind, flags, data))
	t.Cleanup(func() { unmount(t, at) })
}

// mountImage mounts a file that holds a file system, through a loop device.
func mountImage(t rig.TB, image, at, options string) {
	t.Helper()
	rig.Must(t, os.MkdirAll(at, 0o755))
	if out, err := exec.Command("mount", "-o", "loop"+options, image, at).CombinedOutput(); err != nil {
		t.Fatalf("mount %s: %v: %s", image, err, out)
	}
	t.Cleanup(func() { unmount(t, at) })
}

// unmount waits for processes that are about to end.
func unmount(t rig.TB, at string) {
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = unix.Unmount(at, 0); err == nil || errors.Is(err, unix.EINVAL) {
			return
		}
	}
	t.Errorf("unmounting %s: %v", at, err)
	_ = unix.Unmount(at, unix.MNT_DETACH)
}

// makeImage makes a sparse file with an empty file system in it.
func makeImage(t rig.TB, path, kind string, size int64) {
	t.Helper()
	f, err := os.Create(path)
	rig.Must(t, err)
	rig.Must(t, errors.Join(f.Truncate(size), f.Close()))
	if out, err := exec.Command("mkfs."+kind, "-q", "-F", "-E", "lazy_itable_init=1,nodiscard", path).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.%s: %v: %s", kind, err, out)
	}
}

// fill writes into a file until the disk is full.
func fill(t rig.TB, path string) {
	t.Helper()
	f, err := os.Create(path)
	rig.Must(t, err)
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size /= 4
		} else {
			rig.Must(t, err)
		}
	}
}

// intact asserts that all published checkpoints of a run are whole.
func (p *place) intact(t *trial, n int) {
	t.Helper()
	p.Trainctl(t, "ckpt", "verify", p.RunDir(n)).Expect(t, 0)
}

func fullDiskSaving(t *trial) {
	p := newPlace(t)
	runs := filepath.Join(p.Dir, "runs")
	mount(t, runs, "tmpfs", "size=64m", 0)
	args := wide("train.epochs=40", "checkpoint.keep=2")
	a := p.Complete(t, 1, args...)
	r := p.Start(t, args...)
	p.WaitForCheckpoints(t, 2, 1)
	ballast := filepath.Join(runs, "ballast")
	fill(t, ballast)
	res := r.Wait(t)
	t.saw("exit %d", res.Code)
	if res.Code == 0 || res.Code == 75 {
		t.Errorf("the last checkpoint could not be saved, and the run ended with %d:\n%s", res.Code, res.Stderr)
	}
	res.Prints(t, "no space left on device")
	p.intact(t, 2)
	rig.Must(t, os.Remove(ballast))
	t.ended(p.Trainctl(t, append(args, "--resume", "auto")...), 0)
	rig.SameParams(t, a, p.Summary(t, 3))
	t.saw("earlier checkpoints whole; with room again resuming from step %d gives equal bits", p.ResumedFrom(t, 3))
}

func fullDiskLogging(t *trial) {
	p := newPlace(t)
	runs := filepath.Join(p.Dir, "runs")
	mount(t, runs, "tmpfs", "size=8m", 0)
	args := rig.Steps800(`checkpoint.every="never"`, "metrics.tensorboard=true", "train.log_freq=1", "train.epochs=600")
	r := p.Start(t, args...)
	p.WaitForSteps(t, r, 1, 20)
	ballast := filepath.Join(runs, "ballast")
	fill(t, ballast)
	rig.Eventually(t, "a warning", func() bool { return strings.Contains(r.Stderr.String(), "no space left") })
	rig.Must(t, os.Remove(ballast))
	res := t.ended(r.Wait(t), 0)
	if n := strings.Count(res.Stderr, "events.jsonl") + strings.Count(res.Stderr, "events are no longer"); n > 3 {
		t.Errorf("told %d times:\n%s", n, res.Stderr)
	}
	torn := 0
	for line := range bytes.Lines([]byte(rig.ReadFile(filepath.Join(p.RunDir(1), "events.jsonl")))) {
		if _, err := event.Decode(line); err != nil {
			torn++
			t.Logf("torn: %s", line)
		}
	}
	if torn > 0 {
		t.Errorf("%d lines of events.jsonl are torn or glued together", torn)
	}
	if s := p.Summary(t, 1); s.Status != "ok" || s.Steps != 2400 {
		t.Errorf("summary %+v", s)
	}
	t.saw("all 2400 steps, every line of events.jsonl whole")
}

func brokenDisk(t *trial) {
	p := newPlace(t)
	image, runs := filepath.Join(p.Dir, "image"), filepath.Join(p.Dir, "runs")
	makeImage(t, image, "ext2", 256<<20)
	mountImage(t, image, runs, "")
	args := wide("train.epochs=40", "checkpoint.keep=2")
	a := p.Complete(t, 1, args...)
	r := p.Start(t, args...)
	p.WaitForCheckpoints(t, 2, 1)
	limitLoop(t, image, 4<<20) // everything beyond is out of reach of the device
	res := r.Wait(t)
	limitLoop(t, image, 0)
	t.saw("exit %d", res.Code)
	if res.Code == 0 {
		t.Errorf("nothing was said of a checkpoint that could not be saved:\n%s", res.Stderr)
	}
	res.Matches(t, "input/output error|cannot allocate memory") // which is what ext2 makes of a bitmap that it cannot read
	p.intact(t, 2)
	again := filepath.Join(p.Dir, "again") // on a disk that works
	t.ended(p.Trainctl(t, append(args, "--resume", p.RunDir(2), "--run-dir", again)...), 0)
	b, err := event.ReadSummary(checkpoint.OsFS(), filepath.Join(again, "job", "1", "summary.json"))
	rig.Must(t, err)
	rig.SameParams(t, a, b)
	t.saw("no failed save was published; resuming from what there is gives equal bits")
}

// limitLoop cuts the loop device of a mounted image to a size, 0 for all of it.
// The kernel answers what lies beyond with I/O errors.
func limitLoop(t rig.TB, image string, size uint64) {
	t.Helper()
	for _, f := range rig.Glob("/sys/block", "loop*/loop/backing_file") {
		if strings.TrimSpace(rig.ReadFile(f)) != image {
			continue
		}
		dev, err := os.OpenFile("/dev/"+filepath.Base(filepath.Dir(filepath.Dir(f))), os.O_RDWR, 0)
		rig.Must(t, err)
		defer dev.Close()
		info, err := unix.IoctlLoopGetStatus64(int(dev.Fd()))
		rig.Must(t, err)
		info.Sizelimit = size
		rig.Must(t, unix.IoctlLoopSetStatus64(int(dev.Fd()), info))
		return
	}
	t.Fatalf("no loop device has %s", image)
}

func readOnlyRuns(t *trial) {
	p := newPlace(t)
	runs := filepath.Join(p.Dir, "runs")
	mount(t, runs, "tmpfs", "", unix.MS_RDONLY)
	r := p.Train(t)
	t.ended(r, 1).Prints(t, "run directory", "runs/job", "read-only file system", "--run-dir")
	if strings.Contains(r.Stderr, "step 1") {
		t.Errorf("it trained:\n%s", r.Stderr)
	}
	t.saw("before the first step, with path and hint")
}

func losePower(t *trial) {
	p := newPlace(t)
	a := p.Complete(t, 1, wide("train.epochs=40")...)
	rig.Must(t, os.Rename(filepath.Join(p.Dir, "runs"), filepath.Join(p.Dir, "before")))
	image, runs := filepath.Join(p.Dir, "image"), filepath.Join(p.Dir, "runs")
	makeImage(t, image, "ext4", 128<<20)
	mountImage(t, image, runs, ",commit=300") // what is not synced stays in memory
	r := p.Start(t, append(wide("train.epochs=40"), "--max-restarts", "0")...)
	p.WaitForCheckpoints(t, 1, 2)
	var copies []string
	for n := range 6 {
		before := len(rig.EventsOf[rig.StepEvent](t, p.RunDir(1)))
		copies = append(copies, filepath.Join(p.Dir, fmt.Sprint("image.", n)))
		p.frozen(t, func() { copyFile(t, image, copies[n]) })
		rig.Eventually(t, "some steps more", func() bool {
			return len(rig.EventsOf[rig.StepEvent](t, p.RunDir(1))) > before+5+3*n || len(p.Processes()) == 0
		})
	}
	r.Wait(t).Expect(t, 0)
	for n, c := range copies {
		at := filepath.Join(p.Dir, fmt.Sprint("after", n))
		mountImage(t, c, at, "")
		_, report, err := checkpoint.Load(context.Background(), checkpoint.OsFS(), filepath.Join(at, "job", "1", "checkpoints"))
		if err != nil {
			t.Errorf("after power loss %d: %v", n, err)
			continue
		}
		if n%3 == 0 {
			b := append(wide("train.epochs=40"), "--resume", report.Path, "--run-dir", filepath.Join(p.Dir, "again", fmt.Sprint(n)))
			p.Trainctl(t, b...).Expect(t, 0)
			s, err := event.ReadSummary(checkpoint.OsFS(), filepath.Join(p.Dir, "again", fmt.Sprint(n), "job", "1", "summary.json"))
			rig.Must(t, err)
			rig.SameParams(t, a, s)
		}
	}
	t.saw("%d images of a disk taken in mid-run all hold a checkpoint that loads; resuming gives equal bits", len(copies))
}

// frozen calls f while no process of the place runs, not even in the kernel.
func (p *place) frozen(t rig.TB, f func()) {
	t.Helper()
	var stopped []int
	for _, q := range p.Processes() {
		if syscall.Kill(q.PID, syscall.SIGSTOP) == nil {
			stopped = append(stopped, q.PID)
		}
	}
	rig.Eventually(t, "all threads to stand still", func() bool {
		for _, pid := range stopped {
			for _, path := range rig.Glob(fmt.Sprintf("/proc/%d/task", pid), "*/stat") {
				if _, rest, _ := strings.Cut(rig.ReadFile(path), ") "); rest != "" && !strings.ContainsAny(rest[:1], "TZ") {
					return false
				}
			}
		}
		return true
	})
	f()
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

func copyFile(t rig.TB, from, to string) {
	t.Helper()
	src, err := os.Open(from)
	rig.Must(t, err)
	defer src.Close()
	dst, err := os.Create(to)
	rig.Must(t, err)
	_, err = io.Copy(dst, src)
	rig.Must(t, errors.Join(err, dst.Close()))
}
