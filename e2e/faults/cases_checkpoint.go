//go:build linux

package main

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/e2e/rig"
)

// trainedPlace has a run of 8 steps with four checkpoints.
func trainedPlace(t *trial) *place {
	p := newPlace(t)
	p.Train(t, brief()...).Expect(t, 0)
	return p
}

func brief(more ...string) []string {
	return rig.Set(append([]string{"optimizer.momentum=0.9", `checkpoint.every="2 steps"`, "checkpoint.keep=0"}, more...)...)
}

// damages runs auto-resume after the newest checkpoints were damaged one after
// the other, until none is left.
func damages(t *trial, damage func(dir string)) {
	p := trainedPlace(t)
	steps := []int{8, 6, 4, 2}
	for i, step := range steps {
		damage(filepath.Join(p.Checkpoints(1), fmt.Sprint("step-", step)))
		r := p.Train(t, append(brief(), "--resume", p.RunDir(1))...)
		if i == len(steps)-1 {
			t.ended(r, 6).Prints(t, "step-8", "trainctl ckpt verify")
			break
		}
		r.Expect(t, 0)
		if from := p.ResumedFrom(t, i+2); from != steps[i+1] {
			t.Errorf("with step %d damaged the run went on from step %d", step, from)
		}
		rig.SameParams(t, p.Summary(t, 1), p.Summary(t, i+2))
	}
	p.Trainctl(t, "ckpt", "verify", p.RunDir(1)).Expect(t, 6)
	t.saw("went on from steps 6, 4 and 2 with equal bits, then exit 6")
}

func flipBit(t *trial) {
	damages(t, func(dir string) {
		path := filepath.Join(dir, "optimizer.safetensors")
		b, err := os.ReadFile(path)
		rig.Must(t, err)
		b[len(b)-1] ^= 1
		rig.Must(t, os.WriteFile(path, b, 0o644))
	})
}

func truncateCheckpoint(t *trial) {
	n := 0
	damages(t, func(dir string) {
		path := filepath.Join(dir, "model.safetensors")
		switch n++; n {
		case 1:
			rig.Must(t, os.Truncate(path, 100)) // in the header
		case 2:
			rig.Must(t, os.Truncate(path, 4))
		case 3:
			rig.Must(t, os.Truncate(filepath.Join(dir, "manifest.json"), 10))
		default:
			rig.Must(t, os.WriteFile(path, binary.LittleEndian.AppendUint64(nil, 1<<62), 0o644))
		}
	})
}

// peak is the most memory that a program that has ended had, in bytes.
func peak(r *rig.Proc) int64 {
	usage, ok := r.Cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return usage.Maxrss << 10
}

// safetensors is a file of that format with a header and some data.
func safetensors(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func bombs(t *trial) {
	p := newPlace(t)
	const one = `"x":{"dtype":"F32","shape":[%s],"data_offsets":[%s]}`
	var most int64 // memory, beside eight times the file's size
	files := map[string][]byte{
		"header of 2^63 bytes":   binary.LittleEndian.AppendUint64(nil, 1<<63),
		"header of 2^40 bytes":   binary.LittleEndian.AppendUint64(nil, 1<<40),
		"shape that overflows":   safetensors("{"+fmt.Sprintf(one, "4294967296,4294967296,4", "0,16")+"}", 16),
		"shape beyond the file":  safetensors("{"+fmt.Sprintf(one, "1099511627776", "0,4398046511104")+"}", 16),
		"negative dimension":     safetensors("{"+fmt.Sprintf(one, "-4", "0,16")+"}", 16),
		"offsets that overlap":   safetensors(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 12),
		"a hole":                 safetensors(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`, 12),
		"deep nesting":           safetensors(strings.Repeat(`{"a":`, 100_000), 0),
		"end before begin":       safetensors("{"+fmt.Sprintf(one, "4", "16,0")+"}", 16),
		"million tensors' names": safetensors("{"+strings.Repeat(`"x":{},`, 1<<20)+"}", 0),
	}
	// A process inherits the peak of the one that started it, so the good file is
	// read when this process has grown.
	rig.Must(t, os.WriteFile(filepath.Join(p.Dir, "good.safetensors"), safetensors("{"+fmt.Sprintf(one, "4", "0,16")+"}", 16), 0o644))
	good := p.Start(t, "ckpt", "inspect", "good.safetensors")
	good.Wait(t).Expect(t, 0)
	for name, file := range files {
		path := filepath.Join(p.Dir, "bomb.safetensors")
		rig.Must(t, os.WriteFile(path, file, 0o644))
		r := p.Start(t, "ckpt", "inspect", path)
		res := r.Wait(t)
		if res.Code != 6 || !strings.Contains(res.Stderr, "bomb.safetensors") {
			t.Errorf("%s: exit code %d:\n%s", name, res.Code, res.Stderr)
		}
		more := peak(r) - peak(good)
		if most = max(most, more-int64(len(file))*8); more > int64(len(file))*8+(6<<20) {
			t.Errorf("%s: %.1f MB more memory than a good file", name, float64(more)/1e6)
		}
		res.Within(t, 10*time.Second)
	}
	r := p.Train(t, rig.Set(`model.init="bomb.safetensors"`)...)
	if r.Code != 2 && r.Code != 6 {
		t.Errorf("as model.init: exit code %d:\n%s", r.Code, r.Stderr)
	}
	t.saw("ten bombs refused with 6, none with more than %.1f MB beside eight times its own size", float64(most)/1e6)
}

func pickle(t *trial) {
	p := trainedPlace(t)
	marker := filepath.Join(p.Dir, "executed")
	code := "cos\nsystem\n(S'touch " + marker + "'\ntR."
	path := filepath.Join(p.Dir, "model.pth")
	f, err := os.Create(path)
	rig.Must(t, err)
	z := zip.NewWriter(f)
	w, err := z.Create("model/data.pkl")
	rig.Must(t, err)
	_, err = w.Write([]byte(code))
	rig.Must(t, errors.Join(err, z.Close(), f.Close()))
	old := filepath.Join(p.Dir, "old.pth") // before PyTorch 1.6: no archive
	rig.Must(t, os.WriteFile(old, append([]byte("\x80\x02"), code...), 0o644))
	for _, path := range []string{path, old} {
		for _, args := range [][]string{
			{"run", p.Config, "--set", fmt.Sprintf("model.init=%q", path)}, {"run", p.Config, "--resume", path},
			{"ckpt", "inspect", path}, {"ckpt", "convert", path, filepath.Join(p.Dir, "out.safetensors")}, {"eval", p.Config, "--checkpoint", path},
		} {
			r := p.Trainctl(t, args...)
			if r.Code != 2 && r.Code != 6 {
				t.Errorf("trainctl %v: exit code %d:\n%s", args[:1], r.Code, r.Stderr)
			}
			r.Prints(t, filepath.Base(path), "pickle", `refers to "os.system"`)
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the pickle was executed")
	}
	t.saw("refused as a pickle that names os.system by run, --resume, inspect, convert and eval; not executed")
}

func otherJob(t *trial) {
	p := trainedPlace(t)
	one := p.Train(t, append(brief("launch.nproc_per_node=1", "train.per_rank_batch=16"), "--resume", filepath.Join(p.Checkpoints(1), "step-4"))...)
	one.Expect(t, 0)
	if s := p.Summary(t, 2); s.WorldSize != 1 || s.Steps != 8 {
		t.Errorf("on one rank: %+v", s)
	}
	other := p.Train(t, append(brief(`model.layers=[{name="fc", type="linear", in_features=16, out_features=8}, {name="fc2", type="linear", out_features=4}]`), "--resume", p.RunDir(1))...)
	t.ended(other, 6).Prints(t, "does not fit the model", "fc.weight", "fc2")
	t.saw("2 → 1 rank goes on; another model is refused by parameter")
}

func twoWriters(t *trial) {
	p := newPlace(t)
	first := p.StartEndless(t, `checkpoint.every="1000000 steps"`)
	r := p.StartWriter(t, 1).Wait(t)
	t.ended(r, 2).Prints(t, "checkpoints", fmt.Sprint(p.Worker(t, 0).PID))
	at := time.Now()
	rig.Signal(t, first.Cmd.Process.Pid, syscall.SIGTERM)
	res := first.Wait(t)
	res.Expect(t, 75)
	t.saw("the first one was not disturbed and saved when asked to (%.1f s)", res.Since(first, at).Seconds())
}
