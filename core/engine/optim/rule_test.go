package optim

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/base/usererr"
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

// foreign is an optimizer that no device knows.
type foreign struct{ sgd }

func (foreign) name() string { return "foreign" }

// A device computes every optimizer of this package as the host does (TestDeviceFollowsHost), and
// refuses any other by its name, never as another.
func TestDeviceRefusesWhatItHasNoRuleFor(t *testing.T) {
	dev := openDevice(t)
	for _, name := range Names() {
		w := newTwin(t, DefaultFor(name), tensor.F32, tensor.F32, false)
		w.move(t, dev)
		check(t, w.o.Return())
	}
	defer func(was []rule) { rules = was }(rules)
	rules = append(slices.Clip(rules), foreign{})
	w := newTwin(t, DefaultFor("foreign"), tensor.F32, tensor.F32, false)
	w.mirror(t, dev)
	p := usererr.Problems(w.o.Move(dev))
	want := `optimizer.name: the optimizer "foreign" is not implemented on the device "cuda" (set run.device = "cpu", or use "sgd", "adam", "adamw", "lars" or "rmsprop")`
	if len(p) != 1 || p[0].String() != want {
		t.Errorf("%v, want %s", p, want)
	}
	w.draw(rand.New(rand.NewPCG(1, 1)))
	w.o.Step(0.1) // on the host, as before
}
