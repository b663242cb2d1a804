package replica

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/tensor"
)

// network is an MLP whose parameters hold a number each.
func network(t *testing.T, classes int, value float64) *Model {
	t.Helper()
	in := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{4}}
	g, err := nn.Build(nn.Config{Name: "mlp", Hidden: []int{3}}, in, tensor.Spec{DType: tensor.I32}, classes)
	if err != nil {
		t.Fatal(err)
	}
	m := &Model{Graph: g, Network: "mlp"}
	for _, e := range g.StateDict() {
		v := tensor.New(tensor.F32, e.Spec.Shape...)
		for i := range v.Shape.Elems() {
			v.Set(i, value)
		}
		m.Values = append(m.Values, v)
	}
	m.Masters = make([]tensor.Tensor, len(g.Params()))
	return m
}

// A network of ten classes starts from one of seven: what the file gives is loaded, and the
// head starts as without a file.
func TestAssignInit(t *testing.T) {
	for name, c := range map[string]struct {
		cfg    nn.Config
		prefix string
		wrong  string
	}{
		"as they are":        {nn.Config{}, "", "different (2):"},
		"a skipped head":     {nn.Config{InitSkip: []string{"fc2"}}, "", ""},
		"wrapped":            {nn.Config{InitSkip: []string{"*2.*"}}, "module.", ""},
		"renamed":            {nn.Config{InitSkip: []string{"fc2"}, InitRename: map[string]any{"net": ""}}, "net.", ""},
		"not renamed":        {nn.Config{InitSkip: []string{"net.fc2"}}, "net.", "missing in the file (4)"},
		"partly renamed":     {nn.Config{InitRename: map[string]any{"net.fc1": "fc1", "net.fc2": "old"}, InitSkip: []string{"old"}, InitAllowMissing: nn.Patterns{"fc2"}}, "net.", ""},
		"all may be missing": {nn.Config{InitAllowMissing: nn.Patterns{"*"}, InitSkip: []string{"fc2"}}, "", ""},
		"no such tensor":     {nn.Config{InitSkip: []string{"fc2", "fc3"}}, "", "model.init_skip[1]: no tensor of the file, or layer with tensors, is named \"fc3\""},
		"no such name":       {nn.Config{InitRename: map[string]any{"fc": "head"}}, "", "model.init_rename: no tensor"},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Name, c.cfg.Init, c.cfg.Hidden = "mlp", "weights.safetensors", []int{3}
			from, m, fresh := network(t, 7, 5), network(t, 10, 1), network(t, 10, 1)
			var src []tensor.Named
			for _, s := range from.Named(from.Values) {
				src = append(src, tensor.Named{Name: c.prefix + s.Name, Tensor: s.Tensor})
			}
			in, _, err := m.AssignInit(c.cfg, 3, src, tensor.F32)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Fatalf("error %v, want %q", err, c.wrong)
				}
				return
			}
			if err != nil || in.Loaded != 2 || len(in.Skipped) != 2 || !slices.Equal(in.New, []string{"fc2.weight", "fc2.bias"}) {
				t.Fatalf("%+v, %v", in, err)
			}
			if err := nn.Initialize(c.cfg, fresh.Graph, 3, fresh.Values); err != nil {
				t.Fatal(err)
			}
			for i, s := range m.Named(m.Values) {
				want := from.Values[i]
				if strings.HasPrefix(s.Name, "fc2") {
					want = fresh.Values[i]
				}
				if fmt.Sprint(s.F32()) != fmt.Sprint(want.F32()) {
					t.Errorf("%s is %v, want %v", s.Name, s.F32(), want.F32())
				}
			}
		})
	}
}
