package fault

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// Injector injects the faults of one rank's process. It belongs to the goroutine of the training
// loop.
type Injector struct {
	Rank, Node  int
	Disk        *Disk                 // on rank 0, else nil
	Plugin      func(kind string) int // the process ID of a plugin of this rank, 0 if the plugin has no process of its own
	Checkpoints string                // the directory of checkpoints, on rank 0
	Log         io.Writer             // gets a line before each fault; must be unbuffered, since the fault may end the process

	left []Fault
}

// Inject sets the faults, in the order of their steps.
func (i *Injector) Inject(all []Fault) { i.left = all }

// BeforeStep injects the faults of a step. Faults of steps that the run had completed before it was
// resumed are skipped.
func (i *Injector) BeforeStep(step int) error {
	for len(i.left) > 0 && i.left[0].Step <= step {
		f := i.left[0]
		i.left = i.left[1:]
		if f.Step < step || !i.concerns(f) {
			continue
		}
		fmt.Fprintf(i.Log, "injected fault: %s\n", f.Text)
		if err := i.do(f); err != nil {
			return fmt.Errorf("faults.at: %q: %w", f.Text, err)
		}
	}
	if i.Disk != nil {
		i.Disk.reached(step)
	}
	return nil
}

// concerns reports whether this rank injects a fault.
func (i *Injector) concerns(f Fault) bool {
	switch f.Do {
	case Silence:
		return f.Node == i.Node
	case Damage, FillDisk:
		return i.Rank == 0
	}
	return f.Rank == i.Rank
}

func (i *Injector) do(f Fault) error {
	switch f.Do {
	case Kill:
		if f.Plugin == "" {
			return syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		}
		return i.signal(f.Plugin, syscall.SIGKILL)
	case Hang:
		return i.signal(f.Plugin, syscall.SIGSTOP)
	case Delay:
		time.Sleep(f.For)
		return nil
	case Silence:
		return i.silence(f.For)
	case Damage:
		return i.damage()
	}
	i.Disk.fill(f)
	return nil
}

func (i *Injector) signal(kind string, sig syscall.Signal) error {
	pid := i.Plugin(kind)
	if pid == 0 {
		return fmt.Errorf("the %s plugin runs in the rank's process; fix: kill the rank, or use a backend in a process of its own", kind)
	}
	return syscall.Kill(pid, sig)
}

// silence stops this rank's backend plugin, which neither sends nor reads meanwhile.
func (i *Injector) silence(d time.Duration) error {
	pid := i.Plugin("backend")
	if err := i.signal("backend", syscall.SIGSTOP); err != nil {
		return err
	}
	time.AfterFunc(d, func() { _ = syscall.Kill(pid, syscall.SIGCONT) }) // it may have been killed
	return nil
}

// damage inverts a byte in the middle of the newest checkpoint's largest file.
func (i *Injector) damage() error {
	steps, err := afero.Glob(i.Disk.FS, filepath.Join(i.Checkpoints, "step-*"))
	if err != nil {
		return err
	}
	var newest, largest string
	var last int
	var size int64
	for _, dir := range steps {
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "step-")); err == nil && n >= last {
			newest, last = dir, n // the others are unfinished
		}
	}
	if newest == "" {
		return errors.New("there is no checkpoint yet; fix: damage it before a later step")
	}
	err = afero.Walk(i.Disk.FS, newest, func(path string, s fs.FileInfo, err error) error {
		if err == nil && s.Mode().IsRegular() && s.Size() > size {
			largest, size = path, s.Size()
		}
		return err
	})
	if err != nil {
		return err
	}
	b, err := afero.ReadFile(i.Disk.FS, largest)
	if err != nil {
		return err
	}
	b[len(b)/2] ^= 0xff
	return afero.WriteFile(i.Disk.FS, largest, b, 0o644)
}

var _ checkpoint.FS = (*Disk)(nil)
