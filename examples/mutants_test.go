package examples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutant is an example with one mistake, and the check of the suite that must fail.
type mutant struct {
	name, module, file string
	from, to           string
	check              string // in the name of the failed check
	says               string // in its output
}

var mutants = []mutant{
	{"an average that is not divided", "backend", "compute.go", "if op == sdk.Avg {", "if false {", "all reduce", ""},
	{"a sum that counts twice", "backend", "compute.go", "out[i] += v\n", "out[i] += v + v\n", "all reduce", ""},
	{"another root", "backend", "compute.go", "copy(whole, bufs[c.Root])", "copy(whole, bufs[0])", "broadcast", ""},
	{"calls that nobody compares", "backend", "star.go", "v.error(c, 0)", "nil", "mismatch", ""},
	{"indices that are ignored", "dataset", "spirals.go", "p := points[index]", "p := points[i%len(points)]\n_ = index", "reads a sample alike in every batch", ""},
	{"a batch that fails", "dataset", "spirals.go", "input, target := tensor", "if b.Epoch > 0 { println(\"no second epoch here\"); return errors.New(\"a bad day\") }\ninput, target := tensor", "reads an epoch again with equal data", "no second epoch here"},
	{"a step that is not skipped", "precision", "halving.go", "Skip: true, Skipped", "Skipped", "skips exactly the overflowed steps", ""},
	{"a gradient that lacks a factor", "layer", "swish.go", "(1 + beta*x*(1-s))", "1", "gradients are slopes", "element 0 of DX is "},
	{"a state that is forgotten", "precision", "halving.go", `"good": float64(h.good)`, `"good": 0`, "continues from a loaded state", ""},
}

// trainctl plugins test finds a mistake in an example of each kind and names the check
// that fails.
func TestMistakesInTheExamplesAreNamed(t *testing.T) {
	dir := t.TempDir()
	buildTrainctl(t, dir)
	for i, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			bin := filepath.Join(dir, fmt.Sprint("mutant", i))
			m.build(t, bin)
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "trainctl"), "plugins", "test", bin, "--quick", "--json", "--call-timeout", "2s")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run() // its exit code is compared
			if code := cmd.ProcessState.ExitCode(); code != 1 {
				t.Fatalf("exit code %d:\n%s%s", code, &stdout, &stderr)
			}
			m.named(t, stdout.Bytes())
		})
	}
}

// build compiles the example with its mistake.
func (m mutant) build(t *testing.T, bin string) {
	t.Helper()
	buildChanged(t, m.module, m.file, bin, m.from, m.to)
}

// buildChanged compiles an example with a change to one of its files, by an overlay of the source. Of each
// pair of texts, the first one, which must be there once, is replaced by the second.
func buildChanged(t *testing.T, module, name, bin string, pairs ...string) {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(module, name))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if strings.Count(string(text), pairs[i]) != 1 {
			t.Fatalf("%s has %q not once", file, pairs[i])
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: bin + ".go"}})
	if err == nil {
		err = os.WriteFile(bin+".go", []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o644)
	}
	if err == nil {
		err = os.WriteFile(bin+".json", overlay, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	inModule(t, module, "build", "-buildvcs=false", "-overlay", bin+".json", "-o", bin, ".")
}

// named finds the failed check in a report.
func (m mutant) named(t *testing.T, report []byte) {
	t.Helper()
	var r struct {
		Checks []struct{ Name, Status, Output string }
	}
	if err := json.Unmarshal(report, &r); err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, c := range r.Checks {
		if c.Status == "fail" {
			failed = append(failed, c.Name+": "+c.Output)
		}
	}
	if !slices.ContainsFunc(failed, func(s string) bool { return strings.Contains(s, m.check) && strings.Contains(s, m.says) }) {
		t.Errorf("no failed check is %q and says %q:\n%s", m.check, m.says, strings.Join(failed, "\n"))
	}
}
