package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The commands of trainctl, served by this program, know its layer, loss, optimizer and data set.
func TestCommands(t *testing.T) {
	program := filepath.Join(t.TempDir(), "iris")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := "run.dir=" + t.TempDir()
	do := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, append(args, "--set", dir)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return string(out)
	}
	if plan := do("plan", "own.toml"); !strings.Contains(plan, "act    swish") || !strings.Contains(plan, "optimizer  lion") {
		t.Errorf("plan does not show the definitions:\n%s", plan)
	}
	do("run", "own.toml", "--nproc-per-node", "2", "--progress", "none")
	var e struct{ Accuracy, Loss float64 }
	if err := json.Unmarshal([]byte(do("eval", "own.toml", "--checkpoint", "own", "--json")), &e); err != nil || e.Accuracy < 0.9 {
		t.Errorf("eval: %+v, %v", e, err)
	}
	samples := filepath.Join(t.TempDir(), "flowers.npy")
	text := "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }"
	header := "\x93NUMPY\x01\x00\x46\x00" + text + strings.Repeat(" ", 69-len(text)) + "\n"
	if err := os.WriteFile(samples, []byte(header+"\x00\x00\x80\x3f\x00\x00\x00\x40"), 0o644); err != nil { // petal 1, sepal 2
		t.Fatal(err)
	}
	if p := do("predict", "own.toml", samples, "--checkpoint", "own"); !strings.Contains(p, "\t1 ") {
		t.Errorf("predict: %q, want species 1", p)
	}
	export := exec.CommandContext(t.Context(), program, "ckpt", "export", "own.toml", "--checkpoint", "own", "--onnx", filepath.Join(t.TempDir(), "own.onnx"), "--set", dir)
	if out, err := export.CombinedOutput(); err == nil || !strings.Contains(string(out), "act (swish)") {
		t.Errorf("export: %v, want a refusal that names the layer:\n%s", err, out)
	}
	do("run", "words.toml", "--progress", "none")
	if text := do("generate", "words.toml", "--checkpoint", "words", "--prompt", "a", "--max-tokens", "4"); len(text) < 2 {
		t.Errorf("generate: %q", text)
	}
}
