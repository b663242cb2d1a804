package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/trainctl/trainctl/core/train/checkpoint/faultfs"
)

// A scenario saves some steps undisturbed and then one more, which is disturbed.
type scenario struct {
	name   string
	cfg    Config
	before []int
	step   int
	keeps  []int // steps that may be loaded if the save did not get through
}

func config(keep int, best string, async bool) Config {
	return Config{Every: "1 epoch", Keep: keep, KeepBest: best, Async: async}
}

var scenarios = []scenario{
	{"first", config(3, "", false), nil, 1, nil},
	{"second", config(3, "", false), []int{1}, 2, []int{1}},
	{"second, async", config(3, "", true), []int{1}, 2, []int{1}},
	{"keep one", config(1, "", false), []int{1}, 2, []int{1}},
	{"keep two and the best", config(2, "eval.accuracy", false), []int{1, 3, 4}, 5, []int{4}},
	{"the same step again", config(3, "", false), []int{1, 2}, 2, []int{2}},
	{"the same step again, keep one", config(1, "", false), []int{2}, 2, []int{2}},
	{"back to an earlier step", config(2, "", false), []int{1, 9}, 2, []int{9}},
}

// prepared gives a file system with the scenario's earlier saves, all durable.
func (sc scenario) prepared(t *testing.T) *faultfs.FS {
	fs := faultfs.New()
	if len(sc.before) == 0 {
		return fs
	}
	s := mustOpen(t, fs, sc.cfg)
	for _, step := range sc.before {
		mustSave(t, s, step)
	}
	mustClose(t, s)
	return fs
}

// disturbed opens the store and saves, with the fault in place from before the opening.
func (sc scenario) disturbed(fs *faultfs.FS, fault faultfs.Fault) error {
	fs.Inject(fault)
	s, err := Open(fs, dir, sc.cfg)
	if err != nil {
		return err
	}
	_, err = s.Save(context.Background(), snapshot(sc.step))
	return errors.Join(err, s.Close())
}

func (sc scenario) operations(t *testing.T) int {
	fs := sc.prepared(t)
	if err := sc.disturbed(fs, nil); err != nil {
		t.Fatal(err)
	}
	return fs.Ops()
}

// Whatever operation the process or the machine dies in, the old checkpoint or
// the new one can be loaded, a new process goes on, and nothing is left lying.
func TestCrashAtEveryOperation(t *testing.T) {
	atEveryOperation(t, func(t *testing.T, sc scenario, k, n int) {
		fs := sc.prepared(t)
		saved := sc.disturbed(fs, faultfs.CrashAt(k)) == nil
		for seed := range uint64(3) {
			sc.check(t, fmt.Sprintf("power loss %d in operation %d of %d", seed, k, n), fs.PowerLoss(seed), saved)
		}
		sc.check(t, fmt.Sprintf("kill in operation %d of %d", k, n), fs.Kill(), saved)
	})
}

// atEveryOperation tests every scenario at each of its n operations, counted from 1.
func atEveryOperation(t *testing.T, test func(t *testing.T, sc scenario, k, n int)) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			n := sc.operations(t)
			for k := 1; k <= n; k++ {
				test(t, sc, k, n)
			}
		})
	}
}

// check looks at a file system after a crash, first as a reader, then as the next run.
func (sc scenario) check(t *testing.T, what string, fs *faultfs.FS, saved bool) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Fatalf("after %s", what)
		}
	}()
	allowed := append([]int{sc.step}, sc.keeps...)
	if saved {
		allowed = allowed[:1]
	}
	if saved || len(sc.keeps) > 0 {
		mustLoad(t, fs, allowed...)
	}
	s := mustOpen(t, fs, sc.cfg)
	if _, _, err := s.Load(context.Background(), Auto); !errors.Is(err, ErrNone) || saved || len(sc.keeps) > 0 {
		mustLoad(t, fs, allowed...)
	}
	mustSave(t, s, 77)
	mustClose(t, s)
	mustLoad(t, fs, 77)
	noLitter(t, fs)
}

func noLitter(t *testing.T, fs FS) {
	t.Helper()
	d, err := fs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	names, err := d.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.Contains(n, ".tmp-") || strings.Contains(n, ".old-") {
			t.Fatalf("%s is left over among %v", n, names)
		}
	}
}

// Whatever operation fails, Save says so or has saved; earlier checkpoints
// stay, the same store can save again, and a new one finds all in order.
func TestErrorAtEveryOperation(t *testing.T) {
	atEveryOperation(t, func(t *testing.T, sc scenario, k, n int) {
		sc.fails(t, sc.prepared(t), faultfs.FailAt(k, syscall.EIO), syscall.EIO)
		if t.Failed() {
			t.Fatalf("after an error in operation %d of %d", k, n)
		}
	})
}

func (sc scenario) fails(t *testing.T, fs *faultfs.FS, fault faultfs.Fault, cause error) {
	t.Helper()
	fs.Inject(fault)
	s, err := Open(fs, dir, sc.cfg)
	if err == nil {
		_, err = s.Save(context.Background(), snapshot(sc.step))
		err = errors.Join(err, s.wait(context.Background()))
	}
	fs.Inject(nil)
	switch {
	case err == nil:
		mustLoad(t, fs, sc.step)
	case !errors.Is(err, cause):
		t.Fatalf("the error %v hides its cause", err)
	case len(sc.keeps) > 0:
		mustLoad(t, fs, append([]int{sc.step}, sc.keeps...)...)
	}
	if s != nil {
		mustSave(t, s, 76)
		mustClose(t, s)
		mustLoad(t, fs, 76)
	}
	next := mustOpen(t, fs, sc.cfg)
	mustSave(t, next, 77)
	mustClose(t, next)
	mustLoad(t, fs, 77)
	noLitter(t, fs)
}

func TestDiskFull(t *testing.T) {
	sc := scenarios[1]
	for space := 0; ; space += 50 {
		fs := sc.prepared(t)
		s := mustOpen(t, fs, sc.cfg)
		fs.SetSpace(space)
		_, err := s.Save(context.Background(), snapshot(2))
		if err == nil {
			if space < 1000 {
				t.Fatalf("a checkpoint fits in %d bytes", space)
			}
			mustClose(t, s)
			return
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		mustLoad(t, fs, 1, 2)
		fs.SetSpace(-1)
		mustSave(t, s, 3)
		mustClose(t, s)
		mustLoad(t, fs, 3)
	}
}
