package trace_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/trace"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

var builtins = []host.Builtin{{Kind: sdk.KindPrecision, Name: "fake", Plugin: sdk.Plugin{Precision: func() sdk.Precision { return &precision{} }}}}

func TestMain(m *testing.M) {
	host.ServeBuiltin(builtins, os.Args[1:])
	os.Exit(m.Run())
}

// precision counts its updates.
type precision struct{ updates float64 }

func (p *precision) Info() sdk.Info { return sdk.Info{Name: "fake", Version: "1", Summary: "counts"} }

func (p *precision) Policy(context.Context, sdk.Options) (sdk.Policy, error) {
	return sdk.Policy{Params: tensor.F32, Scale: 1}, nil
}

func (p *precision) Update(context.Context, bool) (sdk.ScaleState, error) {
	p.updates++
	return sdk.ScaleState{Scale: 1}, nil
}

func (p *precision) State(context.Context) (map[string]float64, error) {
	return map[string]float64{"updates": p.updates}, nil
}

func (p *precision) Load(context.Context, map[string]float64) error { return nil }

func (p *precision) Close() error { return nil }

// The calls of a whole life are recorded in their order, with the ring's.
func TestPrecision(t *testing.T) {
	calls, err := trace.Run(t.Context(), host.Options{Builtins: builtins}, trace.Spec{Kind: sdk.KindPrecision, Plugin: "fake", Steps: 3})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range calls {
		names = append(names, c.Name)
		if c.Err != nil || c.Took <= 0 || c.Name == "State" && c.Received == 0 {
			t.Errorf("%+v", c)
		}
	}
	got := strings.Join(slices.Compact(slices.Clone(names)), " ")
	if want := "Info Start Policy update State Load"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q and the end", got, want)
	}
	if n := slices.Index(names, "State") - slices.Index(names, "update"); n != 3 {
		t.Errorf("%d updates: %q", n, names)
	}
}
