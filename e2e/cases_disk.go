//go:build linux

package e2e

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
)

// diskFaults are disks that are full, broken, read-only, or lose their power.
var diskFaults = []fault{
	{number: 19, name: "disk full while saving", run: fullDiskSaving, needs: []need{isRoot},
		promise: "told by name, earlier checkpoints stay whole, resuming is exact once there is room"},
	{number: 20, name: "disk full for logs and events", run: fullDiskLogging, needs: []need{isRoot},
		promise: "warned of once, training goes on, no line is torn once there is room"},
	{number: 21, name: "fsync fails with EIO", run: brokenDisk, needs: []need{isRoot, hasLoop},
		promise: "that save fails and is never published; a later one succeeds or the run says why not"},
	{number: 22, name: "run directory is read-only", run: readOnlyRuns, needs: []need{isRoot},
		promise: "refused before the first step, with the path and a hint"},
	{number: 23, name: "power loss", run: losePower, needs: []need{isRoot, hasLoop}, limit: 2 * time.Minute,
		promise: "at any moment after the first save the disk holds a checkpoint that resumes exactly"},
}

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
func mount(t tester, at, kind, data string, flags uintptr) {
	t.Helper()
	must(t, os.MkdirAll(at, 0o755))
	must(t, unix.Mount(kind, at, kind, flags, data))
	t.Cleanup(func() { unmount(t, at) })
}

// mountImage mounts a file that holds a file system, through a loop device.
func mountImage(t tester, image, at, options string) {
	t.Helper()
	must(t, os.MkdirAll(at, 0o755))
	if out, err := exec.Command("mount", "-o", "loop"+options, image, at).CombinedOutput(); err != nil {
		t.Fatalf("mount %s: %v: %s", image, err, out)
	}
	t.Cleanup(func() { unmount(t, at) })
}

// unmount waits for processes that are about to end.
func unmount(t tester, at string) {
	var err error
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = unix.Unmount(at, 0); err == nil || errors.Is(err, unix.EINVAL) {
			return
		}
	}
	t.Errorf("unmounting %s: %v", at, err)
	_ = unix.Unmount(at, unix.MNT_DETACH)
}

// makeImage makes a sparse file with an empty file system in it.
func makeImage(t tester, path, kind string, size int64) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	must(t, errors.Join(f.Truncate(size), f.Close()))
	if out, err := exec.Command("mkfs."+kind, "-q", "-F", "-E", "lazy_itable_init=1,nodiscard", path).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.%s: %v: %s", kind, err, out)
	}
}

// fill writes into a file until the disk is full.
func fill(t tester, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size /= 4
		} else {
			must(t, err)
		}
	}
}

// saved waits until the n-th run has made that many checkpoints durable.
func (p *place) saved(t tester, n, count int) {
	t.Helper()
	eventually(t, "saved checkpoints", func() bool {
		b, _ := os.ReadFile(filepath.Join(p.runDir(n), "events.jsonl"))
		return bytes.Count(b, []byte(`"event":"checkpoint_saved"`)) >= count
	})
}

// intact asserts that all published checkpoints of a run are whole.
func (p *place) intact(t *trial, n int) {
	t.Helper()
	p.trainctl(t, "ckpt", "verify", p.runDir(n)).expect(t, 0)
}

func fullDiskSaving(t *trial) {
	p := newPlace(t)
	runs := filepath.Join(p.dir, "runs")
	mount(t, runs, "tmpfs", "size=64m", 0)
	args := wide("train.epochs=40", "checkpoint.keep=2")
	a := p.whole(t, 1, args...)
	r := p.start(t, args...)
	p.saved(t, 2, 1)
	ballast := filepath.Join(runs, "ballast")
	fill(t, ballast)
	res := r.wait(t)
	t.saw("exit %d", res.code)
	if res.code == 0 || res.code == 75 {
		t.Errorf("the last checkpoint could not be saved, and the run ended with %d:\n%s", res.code, res.stderr)
	}
	res.says(t, "no space left on device")
	p.intact(t, 2)
	must(t, os.Remove(ballast))
	t.ended(p.trainctl(t, append(args, "--resume", "auto")...), 0)
	sameParams(t, a, p.summary(t, 3))
	t.saw("earlier checkpoints whole; with room again resuming from step %d gives equal bits", p.resumed(t, 3))
}

func fullDiskLogging(t *trial) {
	p := newPlace(t)
	runs := filepath.Join(p.dir, "runs")
	mount(t, runs, "tmpfs", "size=8m", 0)
	args := lengthy(`checkpoint.every="never"`, "metrics.tensorboard=true", "train.log_freq=1", "train.epochs=600")
	r := p.start(t, args...)
	p.trained(t, r, 1, 20)
	ballast := filepath.Join(runs, "ballast")
	fill(t, ballast)
	eventually(t, "a warning", func() bool { return strings.Contains(r.stderr.String(), "no space left") })
	must(t, os.Remove(ballast))
	res := t.ended(r.wait(t), 0)
	if n := strings.Count(res.stderr, "events.jsonl") + strings.Count(res.stderr, "events are no longer"); n > 3 {
		t.Errorf("told %d times:\n%s", n, res.stderr)
	}
	torn := 0
	for line := range bytes.Lines([]byte(read(filepath.Join(p.runDir(1), "events.jsonl")))) {
		if _, err := event.Decode(line); err != nil {
			torn++
			t.Logf("torn: %s", line)
		}
	}
	if torn > 0 {
		t.Errorf("%d lines of events.jsonl are torn or glued together", torn)
	}
	if s := p.summary(t, 1); s.Status != "ok" || s.Steps != 2400 {
		t.Errorf("summary %+v", s)
	}
	t.saw("all 2400 steps, every line of events.jsonl whole")
}

func brokenDisk(t *trial) {
	p := newPlace(t)
	image, runs := filepath.Join(p.dir, "image"), filepath.Join(p.dir, "runs")
	makeImage(t, image, "ext2", 256<<20)
	mountImage(t, image, runs, "")
	args := wide("train.epochs=40", "checkpoint.keep=2")
	a := p.whole(t, 1, args...)
	r := p.start(t, args...)
	p.saved(t, 2, 1)
	limitLoop(t, image, 4<<20) // everything beyond is out of reach of the device
	res := r.wait(t)
	limitLoop(t, image, 0)
	t.saw("exit %d", res.code)
	if res.code == 0 {
		t.Errorf("nothing was said of a checkpoint that could not be saved:\n%s", res.stderr)
	}
	res.matches(t, "input/output error|cannot allocate memory") // which is what ext2 makes of a bitmap that it cannot read
	p.intact(t, 2)
	again := filepath.Join(p.dir, "again") // on a disk that works
	t.ended(p.trainctl(t, append(args, "--resume", p.runDir(2), "--run-dir", again)...), 0)
	b, err := event.ReadSummary(checkpoint.OsFS(), filepath.Join(again, "job", "1", "summary.json"))
	must(t, err)
	sameParams(t, a, b)
	t.saw("no failed save was published; resuming from what there is gives equal bits")
}

// limitLoop cuts the loop device of a mounted image to a size, 0 for all of it.
// The kernel answers what lies beyond with I/O errors.
func limitLoop(t tester, image string, size uint64) {
	t.Helper()
	for _, f := range matching("/sys/block", "loop*/loop/backing_file") {
		if strings.TrimSpace(read(f)) != image {
			continue
		}
		dev, err := os.OpenFile("/dev/"+filepath.Base(filepath.Dir(filepath.Dir(f))), os.O_RDWR, 0)
		must(t, err)
		defer dev.Close()
		info, err := unix.IoctlLoopGetStatus64(int(dev.Fd()))
		must(t, err)
		info.Sizelimit = size
		must(t, unix.IoctlLoopSetStatus64(int(dev.Fd()), info))
		return
	}
	t.Fatalf("no loop device has %s", image)
}

func readOnlyRuns(t *trial) {
	p := newPlace(t)
	runs := filepath.Join(p.dir, "runs")
	mount(t, runs, "tmpfs", "", unix.MS_RDONLY)
	r := p.train(t)
	t.ended(r, 1).says(t, "run directory", "runs/job", "read-only file system", "--run-dir")
	if strings.Contains(r.stderr, "step 1") {
		t.Errorf("it trained:\n%s", r.stderr)
	}
	t.saw("before the first step, with path and hint")
}

func losePower(t *trial) {
	p := newPlace(t)
	a := p.whole(t, 1, wide("train.epochs=40")...)
	must(t, os.Rename(filepath.Join(p.dir, "runs"), filepath.Join(p.dir, "before")))
	image, runs := filepath.Join(p.dir, "image"), filepath.Join(p.dir, "runs")
	makeImage(t, image, "ext4", 128<<20)
	mountImage(t, image, runs, ",commit=300") // what nobody syncs stays in memory
	r := p.start(t, append(wide("train.epochs=40"), "--max-restarts", "0")...)
	p.saved(t, 1, 2)
	var copies []string
	for n := range 6 {
		before := len(eventsOf[stepEvent](t, p, 1))
		copies = append(copies, filepath.Join(p.dir, fmt.Sprint("image.", n)))
		p.frozen(t, func() { copyFile(t, image, copies[n]) })
		eventually(t, "some steps more", func() bool {
			return len(eventsOf[stepEvent](t, p, 1)) > before+5+3*n || len(p.processes()) == 0
		})
	}
	r.wait(t).expect(t, 0)
	for n, c := range copies {
		at := filepath.Join(p.dir, fmt.Sprint("after", n))
		mountImage(t, c, at, "")
		_, report, err := checkpoint.Load(context.Background(), checkpoint.OsFS(), filepath.Join(at, "job", "1", "checkpoints"))
		if err != nil {
			t.Errorf("after power loss %d: %v", n, err)
			continue
		}
		if n%3 == 0 {
			b := append(wide("train.epochs=40"), "--resume", report.Path, "--run-dir", filepath.Join(p.dir, "again", fmt.Sprint(n)))
			p.trainctl(t, b...).expect(t, 0)
			s, err := event.ReadSummary(checkpoint.OsFS(), filepath.Join(p.dir, "again", fmt.Sprint(n), "job", "1", "summary.json"))
			must(t, err)
			sameParams(t, a, s)
		}
	}
	t.saw("%d images of a disk taken in mid-run all hold a checkpoint that loads; resuming gives equal bits", len(copies))
}

// frozen calls f while no process of the place runs, not even in the kernel.
func (p *place) frozen(t tester, f func()) {
	t.Helper()
	var stopped []int
	for _, q := range p.processes() {
		if syscall.Kill(q.pid, syscall.SIGSTOP) == nil {
			stopped = append(stopped, q.pid)
		}
	}
	eventually(t, "all threads to stand still", func() bool {
		for _, pid := range stopped {
			for _, path := range matching(fmt.Sprintf("/proc/%d/task", pid), "*/stat") {
				if _, rest, _ := strings.Cut(read(path), ") "); rest != "" && !strings.ContainsAny(rest[:1], "TZ") {
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

func copyFile(t tester, from, to string) {
	t.Helper()
	src, err := os.Open(from)
	must(t, err)
	defer src.Close()
	dst, err := os.Create(to)
	must(t, err)
	_, err = io.Copy(dst, src)
	must(t, errors.Join(err, dst.Close()))
}
