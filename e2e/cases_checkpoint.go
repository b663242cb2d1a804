//go:build linux

package e2e

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
)

// checkpointFaults are checkpoints that are damaged, hostile, or of another job.
var checkpointFaults = []fault{
	{number: 24, name: "bit flip in a checkpoint", run: flipBit,
		promise: "the checksum tells; --resume auto takes the one before; exit 6 if none is left"},
	{number: 25, name: "truncated checkpoint or header", run: truncateCheckpoint,
		promise: "as for a bit flip; no large allocation"},
	{number: 26, name: "safetensors bombs", run: bombs,
		promise: "refused by name at once, with little memory"},
	{number: 27, name: "pickle that would run a program", run: pickle,
		promise: "refused as a pickle, what it would call is named, nothing is executed"},
	{number: 28, name: "checkpoint of another world size or model", run: otherJob,
		promise: "another world size goes on; another model is refused with the difference"},
	{number: 29, name: "two runs write into one run directory", run: twoWriters,
		promise: "the second one ends with 2 and names the first one's pid"},
}

// trainedPlace has a run of 8 steps with four checkpoints.
func trainedPlace(t *trial) *place {
	p := newPlace(t)
	p.train(t, brief()...).expect(t, 0)
	return p
}

func brief(more ...string) []string {
	return set(append([]string{"optimizer.momentum=0.9", `checkpoint.every="2 steps"`, "checkpoint.keep=0"}, more...)...)
}

// damages runs auto-resume after the newest checkpoints were damaged one after
// the other, until none is left.
func damages(t *trial, damage func(dir string)) {
	p := trainedPlace(t)
	steps := []int{8, 6, 4, 2}
	for i, step := range steps {
		damage(filepath.Join(p.checkpoints(1), fmt.Sprint("step-", step)))
		r := p.train(t, append(brief(), "--resume", p.runDir(1))...)
		if i == len(steps)-1 {
			t.ended(r, 6).says(t, "step-8", "trainctl ckpt verify")
			break
		}
		r.expect(t, 0)
		if from := p.resumed(t, i+2); from != steps[i+1] {
			t.Errorf("with step %d damaged the run went on from step %d", step, from)
		}
		sameParams(t, p.summary(t, 1), p.summary(t, i+2))
	}
	p.trainctl(t, "ckpt", "verify", p.runDir(1)).expect(t, 6)
	t.saw("went on from steps 6, 4 and 2 with equal bits, then exit 6")
}

func flipBit(t *trial) {
	damages(t, func(dir string) {
		path := filepath.Join(dir, "optimizer.safetensors")
		b, err := os.ReadFile(path)
		must(t, err)
		b[len(b)-1] ^= 1
		must(t, os.WriteFile(path, b, 0o644))
	})
}

func truncateCheckpoint(t *trial) {
	n := 0
	damages(t, func(dir string) {
		path := filepath.Join(dir, "model.safetensors")
		switch n++; n {
		case 1:
			must(t, os.Truncate(path, 100)) // in the header
		case 2:
			must(t, os.Truncate(path, 4))
		case 3:
			must(t, os.Truncate(filepath.Join(dir, "manifest.json"), 10))
		default:
			must(t, os.WriteFile(path, binary.LittleEndian.AppendUint64(nil, 1<<62), 0o644))
		}
	})
}

// peak is the most memory that a program that has ended had, in bytes.
func (r *proc) peak() int64 {
	usage, ok := r.cmd.ProcessState.SysUsage().(*syscall.Rusage)
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
	must(t, os.WriteFile(filepath.Join(p.dir, "good.safetensors"), safetensors("{"+fmt.Sprintf(one, "4", "0,16")+"}", 16), 0o644))
	good := p.start(t, "ckpt", "inspect", "good.safetensors")
	good.wait(t).expect(t, 0)
	for name, file := range files {
		path := filepath.Join(p.dir, "bomb.safetensors")
		must(t, os.WriteFile(path, file, 0o644))
		r := p.start(t, "ckpt", "inspect", path)
		res := r.wait(t)
		if res.code != 6 || !strings.Contains(res.stderr, "bomb.safetensors") {
			t.Errorf("%s: exit code %d:\n%s", name, res.code, res.stderr)
		}
		more := r.peak() - good.peak()
		if most = max(most, more-int64(len(file))*8); more > int64(len(file))*8+(6<<20) {
			t.Errorf("%s: %.1f MB more memory than a good file", name, float64(more)/1e6)
		}
		res.within(t, 10*time.Second)
	}
	r := p.train(t, set(`model.init="bomb.safetensors"`)...)
	if r.code != 2 && r.code != 6 {
		t.Errorf("as model.init: exit code %d:\n%s", r.code, r.stderr)
	}
	t.saw("ten bombs refused with 6, none with more than %.1f MB beside eight times its own size", float64(most)/1e6)
}

func pickle(t *trial) {
	p := trainedPlace(t)
	marker := filepath.Join(p.dir, "executed")
	code := "cos\nsystem\n(S'touch " + marker + "'\ntR."
	path := filepath.Join(p.dir, "model.pth")
	f, err := os.Create(path)
	must(t, err)
	z := zip.NewWriter(f)
	w, err := z.Create("model/data.pkl")
	must(t, err)
	_, err = w.Write([]byte(code))
	must(t, errors.Join(err, z.Close(), f.Close()))
	old := filepath.Join(p.dir, "old.pth") // before PyTorch 1.6: no archive
	must(t, os.WriteFile(old, append([]byte("\x80\x02"), code...), 0o644))
	for _, path := range []string{path, old} {
		for _, args := range [][]string{
			{"run", p.config, "--set", fmt.Sprintf("model.init=%q", path)}, {"run", p.config, "--resume", path},
			{"ckpt", "inspect", path}, {"ckpt", "convert", path, filepath.Join(p.dir, "out.safetensors")}, {"eval", p.config, "--checkpoint", path},
		} {
			r := p.trainctl(t, args...)
			if r.code != 2 && r.code != 6 {
				t.Errorf("trainctl %v: exit code %d:\n%s", args[:1], r.code, r.stderr)
			}
			r.says(t, filepath.Base(path), "pickle", `refers to "os.system"`)
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the pickle was executed")
	}
	t.saw("refused as a pickle that names os.system by run, --resume, inspect, convert and eval; not executed")
}

func otherJob(t *trial) {
	p := trainedPlace(t)
	one := p.train(t, append(brief("launch.nproc_per_node=1", "train.per_rank_batch=16"), "--resume", filepath.Join(p.checkpoints(1), "step-4"))...)
	one.expect(t, 0)
	if s := p.summary(t, 2); s.WorldSize != 1 || s.Steps != 8 {
		t.Errorf("on one rank: %+v", s)
	}
	other := p.train(t, append(brief(`model.layers=[{name="fc", type="linear", in_features=16, out_features=8}, {name="fc2", type="linear", out_features=4}]`), "--resume", p.runDir(1))...)
	t.ended(other, 6).says(t, "does not fit the model", "fc.weight", "fc2")
	t.saw("2 → 1 rank goes on; another model is refused by parameter")
}

func twoWriters(t *trial) {
	p := newPlace(t)
	first := p.underWay(t, `checkpoint.every="1000000 steps"`)
	r := p.asWriter(t, 1).wait(t)
	t.ended(r, 2).says(t, "checkpoints", fmt.Sprint(p.worker(t, 0).pid))
	at := time.Now()
	kill(t, first.cmd.Process.Pid, syscall.SIGTERM)
	res := first.wait(t)
	res.expect(t, 75)
	t.saw("the first one was not disturbed and saved when asked to (%.1f s)", res.since(first, at).Seconds())
}
