package outline

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

func TestBackendsThatOfferTooLittle(t *testing.T) {
	every := []sdk.Op{sdk.OpAllReduce, sdk.OpBroadcast, sdk.OpAllGather}
	floats := []tensor.DType{tensor.F32, tensor.F64}
	for _, c := range []struct {
		name   string
		info   sdk.Info
		change func(*ddp.Config)
		key    string // "": the plugin's own fault
		want   string
	}{
		{"compression", sdk.Info{Ops: every, DTypes: floats, Devices: []string{"cpu"}}, func(c *ddp.Config) { c.Compress = "bf16" },
			"ddp.compress", "does not offer all_reduce of bf16 (gradients); it offers all_reduce broadcast all_gather, and reductions of f32 f64"},
		{"unused parameters", sdk.Info{Ops: every, DTypes: floats, Devices: []string{"cpu"}}, func(c *ddp.Config) { c.FindUnusedParameters = true },
			"ddp.find_unused_parameters", "all_reduce of i32"},
		{"measuring", sdk.Info{Ops: every, DTypes: floats, Devices: []string{"cpu"}}, func(c *ddp.Config) { c.BucketCapMB = ddp.AutoCap },
			"ddp.bucket_cap_mb", "barrier"},
		{"device", sdk.Info{Ops: every, DTypes: floats, Devices: []string{"cuda"}}, nil, "run.device", "supports ranks on cuda, but this job computes on cpu"},
		{"ranks", sdk.Info{Ops: every, DTypes: floats, Devices: []string{"cpu"}, MaxWorld: 1}, nil, "backend.plugin", "at most 1 ranks"},
		{"broadcast", sdk.Info{Ops: every[:1], DTypes: floats, Devices: []string{"cpu"}}, nil, "", "every run needs broadcast (weights and buffers), all_gather"},
		{"doubles", sdk.Info{Ops: every, DTypes: floats[:1], Devices: []string{"cpu"}}, nil, "", "every run needs all_reduce of f64 (totals of a step)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := ddp.Default()
			if c.change != nil {
				c.change(&cfg)
			}
			err := CheckBackend(c.info, 2, "cpu", cfg.Calls([]tensor.DType{tensor.F32}))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v does not say %q", err, c.want)
			}
			var unusable *host.StartError
			l := usererr.Problems(err)
			if c.key == "" && !errors.As(err, &unusable) || c.key != "" && !slices.ContainsFunc(l, func(p usererr.Problem) bool { return p.Key == c.key && p.Help != "" }) {
				t.Errorf("%T %v, want a problem of %q", err, err, c.key)
			}
			if err := CheckBackend(c.info, 1, "cpu", nil); err != nil {
				t.Errorf("one rank asks for nothing: %v", err)
			}
		})
	}
}
