package fault

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/train/checkpoint/faultfs"
)

func TestFaultsAreRead(t *testing.T) {
	c := Config{At: []string{
		"step 9: fill disk for 10 steps", "step 3: kill rank 2", "step 4: kill dataset of rank 1", "step 4: hang backend of rank 0",
		"step 5: delay rank 2 by 200ms", "step 6: silence node 1 for 5s", "step 7: damage checkpoint", "step 8: fill disk",
	}}
	if err := c.Problems().Err(); err != nil {
		t.Fatal(err)
	}
	want := []Fault{
		{Step: 3, Do: Kill, Rank: 2}, {Step: 4, Do: Kill, Plugin: "dataset", Rank: 1}, {Step: 4, Do: Hang, Plugin: "backend"},
		{Step: 5, Do: Delay, Rank: 2, For: 200 * time.Millisecond}, {Step: 6, Do: Silence, Node: 1, For: 5 * time.Second},
		{Step: 7, Do: Damage}, {Step: 8, Do: FillDisk}, {Step: 9, Do: FillDisk, Steps: 10},
	}
	if d := cmp.Diff(want, c.Faults(), cmpopts.IgnoreFields(Fault{}, "Text")); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{"kill rank 3", "step 0: kill rank 3", "step 3: kill plugin of rank 1", "step 3: hang rank 1", "step 3: delay rank 1", "step 3: kill rank 1 by 5s", "step 3: delay dataset of rank 1 by 5s", "step 3: silence node 1 for 5", "step 3: fill disk for 0 steps"} {
		if (Config{At: []string{bad}}).Problems().Err() == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// A fault happens once, before its step, on the rank that it concerns.
func TestFaultsHappenAtTheirStep(t *testing.T) {
	var log strings.Builder
	fs := faultfs.New()
	i := &Injector{Rank: 1, Node: 1, Disk: NewDisk(fs), Log: &log, Plugin: func(string) int { return 0 }}
	i.Inject(Config{At: []string{"step 2: delay rank 0 by 1h", "step 3: delay rank 1 by 1ns", "step 4: fill disk", "step 5: silence node 0 for 1h", "step 7: kill dataset of rank 1"}}.Faults())
	for step := 1; step < 7; step++ {
		if err := i.BeforeStep(step); err != nil {
			t.Fatal(err)
		}
	}
	if want := "injected fault: step 3: delay rank 1 by 1ns\n"; log.String() != want {
		t.Errorf("got %q, want %q", log.String(), want)
	}
	if err := i.BeforeStep(7); err == nil || !strings.Contains(err.Error(), `faults.at: "step 7: kill dataset of rank 1": the dataset plugin runs in the rank's process`) {
		t.Errorf("got %v", err)
	}
	i.Inject(Config{At: []string{"step 7: kill dataset of rank 1"}}.Faults())
	if err := i.BeforeStep(8); err != nil { // a resumed run that begins later
		t.Error(err)
	}
}

func TestTheDiskIsFullForSomeSteps(t *testing.T) {
	i := &Injector{Disk: NewDisk(faultfs.New()), Log: io.Discard}
	i.Inject(Config{At: []string{"step 2: fill disk for 2 steps"}}.Faults())
	for step := 1; step <= 4; step++ {
		if err := i.BeforeStep(step); err != nil {
			t.Fatal(err)
		}
		err := afero.WriteFile(i.Disk, "/file", []byte("text"), 0o644)
		if full := step == 2 || step == 3; errors.Is(err, syscall.ENOSPC) != full {
			t.Errorf("step %d: %v", step, err)
		}
	}
}

// The newest checkpoint's largest file is damaged, in one byte; others are not.
func TestACheckpointIsDamaged(t *testing.T) {
	disk := NewDisk(faultfs.New())
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(disk.MkdirAll(name[:strings.LastIndex(name, "/")], 0o755), afero.WriteFile(disk, name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	i := &Injector{Disk: disk, Checkpoints: "/c", Log: io.Discard}
	i.Inject(Config{At: []string{"step 1: damage checkpoint", "step 2: damage checkpoint"}}.Faults())
	if err := i.BeforeStep(1); err == nil || !strings.Contains(err.Error(), "there is no checkpoint yet") {
		t.Errorf("got %v", err)
	}
	write("/c/step-9/model", "aaaaa")
	write("/c/step-10/model", "aaaaa")
	write("/c/step-10/meta", "aaa")
	write("/c/step-11.tmp/model", "aaaaaaa")
	if err := i.BeforeStep(2); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"/c/step-9/model": "aaaaa", "/c/step-10/model": "aa\x9eaa", "/c/step-10/meta": "aaa", "/c/step-11.tmp/model": "aaaaaaa"} {
		if b, err := afero.ReadFile(disk, name); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v, want %q", name, b, err, want)
		}
	}
}
