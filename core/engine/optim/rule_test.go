package optim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/cuda"
	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/tensor"
)

// For each optimizer this names what the goldens, the manual or its own rule lack.
func TestEveryOptimizerIsWhole(t *testing.T) {
	all := testjson.Read[map[string]golden](t, "testdata/optimizers.json")
	text, err := os.ReadFile("../../../docs/configuration.md")
	check(t, err)
	manual := table(string(text), "## [optimizer]")
	for i, name := range Names() {
		c := DefaultFor(name)
		if slices.Contains(Names()[:i], name) {
			t.Errorf("%s is registered twice", name)
		}
		if p := c.Problems(); p != nil {
			t.Errorf("the defaults of %s are refused: %v", name, p)
		}
		for d, g := range all {
			if !slices.ContainsFunc(g.Runs, func(r goldenRun) bool { return r.Config["name"] == name }) {
				t.Errorf("testdata/optimizers.json has no run of %s in %s: add it to make.py", name, d)
			}
		}
		if !strings.Contains(manual["name"], `"`+name+`"`) {
			t.Errorf("docs/configuration.md does not list the optimizer %q", name)
		}
		for _, key := range c.rule().keys() {
			if !strings.Contains(manual[key], name) {
				t.Errorf("docs/configuration.md does not say at optimizer.%s that %s uses it", key, name)
			}
		}
		if n := c.rule().numbers(c); n.Name != name {
			t.Errorf("devices know %s as %q", name, n.Name)
		}
	}
}

// table maps the keys of a section of the manual to their rows.
func table(text, headline string) map[string]string {
	rows := map[string]string{}
	_, section, _ := strings.Cut(text, headline+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "`"); strings.HasPrefix(line, "| `") {
			rows[cells[1]] = line
		}
	}
	return rows
}

// A device computes an optimizer as the host does (TestDeviceFollowsHost) or
// refuses it by its name, never as another.
func TestDeviceRefusesWhatItHasNoRuleFor(t *testing.T) {
	cudatest.Libraries(t, 1)
	dev, err := cuda.Open(0, "")
	check(t, err)
	t.Cleanup(func() { check(t, dev.Close()) })
	computed := []string{"sgd", "adam", "adamw"}
	for _, name := range Names() {
		w := newTwin(t, DefaultFor(name), tensor.F32, tensor.F32, false)
		for _, p := range w.params {
			for _, mem := range [][]byte{p.Value.Data, p.Grad.Data} {
				release, _, err := dev.Mirror(mem)
				check(t, err)
				t.Cleanup(func() { check(t, release()) })
			}
		}
		err := w.o.Move(dev)
		if slices.Contains(computed, name) {
			check(t, err)
			check(t, w.o.Return())
			continue
		}
		p := usererr.Problems(err)
		want := fmt.Sprintf(`optimizer.name: the optimizer %q is not implemented on the device "cuda" (set run.device = "cpu", or use "sgd", "adam" or "adamw")`, name)
		if len(p) != 1 || p[0].String() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		w.draw(rand.New(rand.NewPCG(1, 1)))
		w.o.Step(0.1) // on the host, as before
	}
}
