package checkpoint

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/trainctl/trainctl/core/tensor"
	"pgregory.net/rapid"
)

var convnet = []string{"layer1.0.weight", "layer1.0.bias", "layer1.1.running_mean", "layer1.1.num_batches_tracked", "fc.weight", "fc.bias"}

func mapped(keys []string, f func(string) string) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = f(k)
	}
	return out
}

func prefix(p string) func(string) string { return func(k string) string { return p + k } }

func features(k string) string { return strings.Replace(k, "layer1.", "layer1.module.", 1) }

// matched is the mapping, or what is wrong with the names.
func matched(want, have []string) (Mapping, error) {
	m, problems := match(want, have)
	if len(problems.lines()) > 0 {
		return Mapping{}, &problems
	}
	return m, nil
}

func TestMatchKeys(t *testing.T) {
	withoutCounter := append(append([]string{}, convnet[:3]...), convnet[4:]...)
	cases := []struct {
		name       string
		want, have []string
		notes      []string
	}{
		{"equal", convnet, convnet, nil},
		{"wrapped file", convnet, mapped(convnet, prefix("module.")), []string{"stripped 'module.' from 6 of 6 keys"}},
		{"wrapped twice", convnet, mapped(convnet, prefix("module.module.")), []string{"stripped 'module.' from 6 of 6 keys"}},
		{"wrapped model", mapped(convnet, prefix("module.")), convnet, []string{"added 'module.' to 6 of 6 keys"}},
		{"one part wrapped", convnet, mapped(convnet, features), []string{"stripped 'module.' from 4 of 6 keys"}},
		{"a part and the whole", convnet, mapped(mapped(convnet, features), prefix("module.")), []string{"stripped 'module.' from 6 of 6 keys"}},
		{"other part wrapped", mapped(convnet, features), mapped(convnet, prefix("module.")), []string{"stripped 'module.' from 2 of 6 keys"}},
		{"a model that has a module", []string{"module.a", "b"}, []string{"module.a", "b"}, nil},
		{"such a model in a wrapped file", []string{"module.a", "b"}, []string{"module.module.a", "module.b"}, []string{"stripped 'module.' from 2 of 2 keys"}},
		{"old file", convnet, withoutCounter, []string{"1 counters num_batches_tracked are not in the file and keep their value"}},
		{"old wrapped file", convnet, mapped(withoutCounter, prefix("module.")), []string{
			"stripped 'module.' from 5 of 5 keys", "1 counters num_batches_tracked are not in the file and keep their value",
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m, err := matched(c.want, c.have)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.notes, m.Notes); d != "" {
				t.Error(d)
			}
			if len(m.From)+len(m.Missing) != len(c.want) {
				t.Errorf("%d of %d names mapped", len(m.From), len(c.want))
			}
			for w, h := range m.From {
				if unwrap(w) != unwrap(h) {
					t.Errorf("%s is filled from %s", w, h)
				}
			}
		})
	}
}

func TestMatchKeysRefuses(t *testing.T) {
	cases := []struct {
		name string
		have []string
		says []string
	}{
		{"half wrapped", append(mapped(convnet[:2], prefix("module.")), convnet[2:]...),
			[]string{"at the top, 2 keys have 'module.' and 4 do not", "+ module.layer1.0.weight", "- fc.bias"}},
		{"half wrapped inside", []string{"layer1.module.0.weight", "layer1.0.bias", "layer1.1.running_mean", "fc.weight", "fc.bias"},
			[]string{"under layer1, 1 keys have 'module.' and 2 do not", "+ layer1.module.0.weight"}},
		{"other names", append([]string{"fc.wieght", "head.bias"}, convnet[:4]...),
			[]string{"missing in the file (2)", "- fc.weight (the file has fc.wieght)", "- fc.bias", "not in the model (2)", "+ head.bias"}},
		{"nothing in common", []string{"x"}, []string{"missing in the file (5)", "not in the model (1)"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := matched(convnet, c.have)
			var ke *KeyError
			if !errors.As(err, &ke) {
				t.Fatalf("got %v", err)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q is not in\n%v", s, err)
				}
			}
		})
	}
}

// However often and wherever whole parts are wrapped, on either side, the same tensors meet.
func TestMatchKeysProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wrap := func(keys []string, label string) []string {
			for _, part := range rapid.SliceOfN(rapid.SampledFrom([]string{"", "layer1.", "fc."}), 0, 4).Draw(t, label) {
				keys = mapped(keys, func(k string) string {
					at := strings.Index(k, part)
					if at < 0 {
						return k
					}
					return k[:at] + part + "module." + k[at+len(part):]
				})
			}
			return keys
		}
		m, err := matched(wrap(convnet, "model"), wrap(convnet, "file"))
		if err != nil {
			t.Fatal(err)
		}
		for w, h := range m.From {
			if unwrap(w) != unwrap(h) {
				t.Fatalf("%s is filled from %s", w, h)
			}
		}
	})
}

func TestFill(t *testing.T) {
	model, file := snapshot(1).Model, snapshot(2).Model
	file = prefixed(file, "module.")
	notes, err := Fill(model, file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(snapshot(2).Model, model); d != "" {
		t.Error(d)
	}
	if len(notes) != 1 {
		t.Error(notes)
	}
}

func TestFillListsEverything(t *testing.T) {
	model, file := snapshot(1).Model, snapshot(2).Model
	file[0].Tensor = tensor.New(tensor.F32, 3, 2)
	file[2].Tensor = tensor.New(tensor.F16, 3)
	file[3].Name = "fc.empti"
	_, err := Fill(model, file)
	for _, s := range []string{
		"layer1.0.weight: the file has f32[3, 2], the model f32[2, 3]", "fc.half: the file has f16[3], the model bf16[3]",
		"- fc.empty (the file has fc.empti)", "+ fc.empti",
	} {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%q is not in\n%v", s, err)
		}
	}
	if d := cmp.Diff(snapshot(1).Model, model); d != "" {
		t.Error("a refused file changed the model")
	}
}
