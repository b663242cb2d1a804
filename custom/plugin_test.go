package custom_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/trainctltest"
)

// The test binary is a layer plugin, too.
func servePlugin() {
	if os.Getenv(pb.Handshake.MagicCookieKey) == pb.Handshake.MagicCookieValue && os.Getenv(pb.EnvKind) == string(sdk.KindLayer) {
		sdk.Serve(sdk.Plugin{Layer: func() sdk.Layer { return halver{} }})
	}
}

// halver is the layer halve as a plugin.
type halver struct{}

func (halver) Info() sdk.Info {
	return sdk.Info{Kind: sdk.KindLayer, Name: "halver", Version: "1", Summary: "weighted sums of neighbours", Options: []sdk.Option{
		{Name: "scale", Type: sdk.Float, Default: 1.0, Doc: "Of the sums."}, {Name: "fault", Type: sdk.String, Default: "", Doc: "What goes wrong."}}}
}

func (halver) Describe(_ context.Context, req sdk.LayerRequest) (sdk.LayerSpec, error) {
	last := len(req.Shape) - 1
	if req.Shape[last]%2 != 0 {
		return sdk.LayerSpec{}, errors.New("the last dimension has to be even")
	}
	n := req.Shape[last] / 2
	return sdk.LayerSpec{
		Shape:  append(slices.Clone(req.Shape[:last]), n),
		Params: []sdk.LayerParam{{Name: "weight", Shape: []int{n}, Init: sdk.InitUniform(0.5, 1.5)}},
		FLOPs:  int64(3 * n),
	}, nil
}

func (h halver) Forward(_ context.Context, c *sdk.LayerCall) error {
	scale := c.Options.Float("scale")
	c.Compute(
		func(t *sdk.LayerTensors[float32]) { halveAll(scale, t.Params[0], t.X, t.Y) },
		func(t *sdk.LayerTensors[float64]) { halveAll(scale, t.Params[0], t.X, t.Y) })
	return nil
}

func (h halver) Backward(_ context.Context, c *sdk.LayerCall) error {
	switch fault := c.Options.String("fault"); fault {
	case "":
	case "hang":
		select {}
	default:
		return errors.New(fault)
	}
	scale := c.Options.Float("scale")
	c.Compute(
		func(t *sdk.LayerTensors[float32]) { halveAllBack(scale, t.Params[0], t.X, t.DY, t.DX, t.DParams[0]) },
		func(t *sdk.LayerTensors[float64]) { halveAllBack(scale, t.Params[0], t.X, t.DY, t.DX, t.DParams[0]) })
	return nil
}

func (halver) Close() error { return nil }

// plugged is network with the layer as a plugin.
func plugged(t *testing.T) trainctl.Config {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	toml := strings.Replace(network, "type = \"halve\"\nname = \"pairs\"\nscale = 0.5", "type = \"plugin\"\nname = \"pairs\"\noptions = { scale = 0.5 }", 1)
	return trainctl.TOML(toml).With(fmt.Sprintf("layer_plugins=[{ plugin = %q }]", exe))
}

// A layer has the same bits in the process of a plugin as in that of its rank.
func TestPluginsAreEqual(t *testing.T) {
	here, there := trainctl.TOML(network), plugged(t)
	for name, set := range map[string][]string{
		"float32": {}, "float64": {"run.dtype=f64"}, "autocast": {"precision.plugin=amp", `precision.options={dtype="bf16"}`},
		"pure bfloat16": {"precision.plugin=amp", `precision.options={level="O3", dtype="bf16"}`},
		"recomputed":    {"train.recompute=blocks"}, "accumulated": {"train.accumulate_steps=2"},
		"sharded": {"ddp.shard=optimizer"},
	} {
		t.Run(name, func(t *testing.T) {
			want := trainctltest.Run(t, here.With(set...), 2, trainctltest.Memory())
			got := trainctltest.Run(t, there.With(set...), 2, trainctltest.Memory())
			if fmt.Sprint(got.Losses) != fmt.Sprint(want.Losses) || got.Summary.ParamsSHA256[0] != want.Summary.ParamsSHA256[0] {
				t.Errorf("losses %v, in the process of the rank %v; weights %.12s and %.12s", got.Losses, want.Losses, got.Summary.ParamsSHA256[0], want.Summary.ParamsSHA256[0])
			}
			if e := got.Summary.Eval; e == nil || e.Loss != want.Summary.Eval.Loss {
				t.Errorf("evaluation %+v, in the process of the rank %+v", e, want.Summary.Eval)
			}
		})
	}
}

// Ranks that are processes have the same bits, too.
func TestPluginsOfProcesses(t *testing.T) {
	cfg := plugged(t)
	threads := trainctltest.Run(t, cfg, 2, trainctl.TCP)
	processes := trainctltest.Run(t, cfg, 2, trainctl.TCP, trainctl.Set("launch.ranks=processes"), trainctl.RankArgs("-test.run=^TestPluginsOfProcesses$"))
	if got, want := processes.Summary.ParamsSHA256[1], threads.Summary.ParamsSHA256[0]; got != want {
		t.Errorf("weights %.12s of processes, %.12s of threads", got, want)
	}
}

// A run that continues from a checkpoint ends with the weights of one that was not stopped.
func TestPluginsResume(t *testing.T) { resumes(t, plugged(t)) }

// The plan shows the operations that a layer states, and what its calls copy.
func TestPluginsArePlanned(t *testing.T) {
	p, err := trainctl.Plan(t.Context(), plugged(t))
	if err != nil {
		t.Fatal(err)
	}
	if l := p.Layers[1]; l.Type != "plugin" || l.FLOPs != 3*4 {
		t.Errorf("%+v, want 12 operations", l)
	}
	if p.Traffic.LayerBytes == 0 {
		t.Errorf("%+v", p.Traffic)
	}
}

// Mistakes are reported with the layer and the fix.
func TestPluginMistakesAreNamed(t *testing.T) {
	cfg := plugged(t)
	options := func(o string) string {
		return `model.layers=[{ type = "linear", out_features = 8 }, { type = "plugin", name = "pairs", options = { ` + o + ` } }, { type = "linear", out_features = 3 }]`
	}
	for name, c := range map[string]struct{ set, want string }{
		"option":      {options("scal = 1.0"), "did you mean scale?"},
		"value":       {options(`scale = "x"`), "model.layers[1].options.scale"},
		"shape":       {`model.layers=[{ type = "linear", out_features = 7 }, { type = "plugin" }, { type = "linear", out_features = 3 }]`, "the last dimension has to be even"},
		"other layer": {`model.layers=[{ type = "relu", options = { a = 1 } }, { type = "plugin" }]`, "relu takes no options"},
		"no plugin":   {"layer_plugins=[]", "the run has no layer plugin"},
		"which":       {`model.layers=[{ type = "plugin", plugin = "./x" }]`, `the run has no layer plugin "./x"`},
		"device":      {"run.device=cuda", "pairs (plugin) is computed by a plugin, which works with CPUs alone"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := trainctl.Plan(t.Context(), cfg.With(c.set))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
	const layer = "backward of layer pairs (model.layers[1])"
	for fault, c := range map[string]struct{ timeout, want string }{"out of ideas": {"1m", layer + ": out of ideas"}, "hang": {"1s", layer + " takes longer than"}} {
		set := []string{options(fmt.Sprintf("fault = %q", fault)), fmt.Sprintf("layer_plugins[0].timeout=%q", c.timeout)}
		_, err := trainctltest.Try(t, cfg.With(set...), 1, trainctltest.Memory())
		if err == nil || !strings.Contains(err.Error(), "step 1, ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q in it, and the step", err, c.want)
		}
	}
}

func TestPluginConforms(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := sdktest.LayerOptions{New: func(testing.TB) sdk.Layer { return halver{} }, Options: map[string]any{"scale": 0.5}, Refused: map[string]map[string]any{"scale": {"scale": "x"}}}
	sdktest.Layer(t, o)
	o.New = sdktest.LayerPlugin(host.New(host.Options{}), exe)
	t.Run("process", func(t *testing.T) { sdktest.Layer(t, o) })
	t.Run("inline", func(t *testing.T) {
		t.Setenv("TRAINCTL_DATA_PLANE", "inline")
		sdktest.Layer(t, o)
	})
}

// A call after Close, as of a rank that is ending, is an error: the memory of the tensors is gone.
func TestCallsAfterCloseFail(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, plane := range []string{"", "inline"} {
		l, err := host.New(host.Options{SetEnv: []string{pb.EnvDataPlane + "=" + plane}}).StartLayers(t.Context(), exe)
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.Add(t.Context(), sdk.LayerRequest{Options: sdk.Options{"scale": 1.0, "fault": ""}, Name: "pairs", Shape: []int{4}}, "")
		if err != nil {
			t.Fatal(err)
		}
		x, w, y := tensor.Bytes([]float32{1, 2, 3, 4}), tensor.Bytes([]float32{1, 10}), []float32{0, 0}
		forward := func() error { return r.Compute(false, tensor.F32, 1, [][]byte{x, w}, [][]byte{tensor.Bytes(y)}) }
		if err := forward(); err != nil || y[0] != 3 || y[1] != 70 {
			t.Fatalf("%v, %v", y, err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := forward(); !errors.Is(err, host.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}
