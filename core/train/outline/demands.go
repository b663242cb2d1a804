package outline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// Calls are the kinds of collective that the run makes.
func (o *Outline) Calls(cfg ddp.Config) []ddp.Call {
	var types []tensor.DType
	for _, b := range o.Buckets {
		types = append(types, b.DType)
	}
	return cfg.Calls(distinct(types))
}

// GradientTypes are the element types that gradients of a run may have, as far
// as configuration and policy say: what is known before there is a plan.
func GradientTypes(dtype string, policy *sdk.Policy) []tensor.DType {
	switch {
	case dtype == "f64":
		return []tensor.DType{tensor.F64}
	case policy.BatchNormF32:
		return distinct([]tensor.DType{policy.Params, tensor.F32})
	}
	return []tensor.DType{policy.Params}
}

func distinct(types []tensor.DType) []tensor.DType {
	types = slices.Clone(types)
	slices.Sort(types)
	return slices.Compact(types)
}

// CheckBackend compares what a run of world ranks needs from a backend with what the
// backend publishes. It returns a usererr.Error if only a setting needs what is
// missing, and a *host.StartError if every run needs it.
func CheckBackend(b sdk.Info, world int, device string, calls []ddp.Call) error {
	if world < 2 {
		return nil // no demands
	}
	if b.MaxWorld > 0 && world > b.MaxWorld {
		return usererr.Errorf("backend.plugin", "start fewer ranks, or use another", "backend %q supports at most %d ranks, this job has %d", b.Name, b.MaxWorld, world)
	}
	if !serves(b.Devices, device) {
		return usererr.Errorf("run.device", fmt.Sprintf("use a backend for %s, such as \"tcp\", or another device", device),
			"backend %q supports ranks on %s, but this job computes on %s", b.Name, strings.Join(orNone(b.Devices), " and "), device)
	}
	return missing(&b, calls)
}

// CheckShard refuses to divide the optimizer's state where a device or an optimizer cannot.
func CheckShard(s *Settings, policy *sdk.Policy, device string, world int) error {
	switch {
	case !s.DDP.Sharded(world):
	case device == "cuda":
		return usererr.Errorf("ddp.shard", `set it to "none", or run.device to "cpu"`, "ranks on GPUs cannot divide the optimizer's state yet")
	case s.Optimizer.Whole() && policy.Params.Half():
		return usererr.Errorf("ddp.shard", `set it to "none", or use a precision whose parameters are float32`,
			"%s needs the norm of a whole parameter, and of half parameters each rank would have a part of the master weights", s.Optimizer.Name)
	}
	return nil
}

// WholeGradients reports whether an update reads more of the averaged gradients than the elements that
// it changes.
func (s *Settings) WholeGradients() bool { return s.Train.MaxNorm > 0 || s.Optimizer.Whole() }

// serves reports whether a backend for the listed devices serves ranks on a
// device: those on GPUs also through the memory of their hosts.
func serves(devices []string, device string) bool {
	return slices.Contains(devices, device) || device != "cpu" && slices.Contains(devices, "cpu")
}

func missing(b *sdk.Info, calls []ddp.Call) error {
	var asked usererr.List
	var needed []string
	for _, c := range ddp.Missing(b, calls) {
		if c.Key == "" {
			needed = append(needed, c.String())
			continue
		}
		asked.Addf(c.Key, c.Help+", or use a backend that can, such as \"tcp\"", "backend %q does not offer %v; it offers %s", b.Name, c, offer(b))
	}
	if len(needed) == 0 {
		return asked.Err()
	}
	return &host.StartError{
		Kind: sdk.KindBackend, Name: b.Name, Problem: fmt.Sprintf("every run needs %s; it offers %s", strings.Join(needed, ", "), offer(b)),
		Help: "implement it in the plugin and list it in Info.Ops and Info.DTypes, or use another backend",
	}
}

// offer is what a backend publishes, in words.
func offer(b *sdk.Info) string {
	var ops, types []string
	for _, o := range b.Ops {
		ops = append(ops, o.String())
	}
	for _, d := range b.DTypes {
		types = append(types, d.String())
	}
	return fmt.Sprintf("%s, and reductions of %s", strings.Join(orNone(ops), " "), strings.Join(orNone(types), " "))
}

func orNone(list []string) []string {
	if len(list) == 0 {
		return []string{"nothing"}
	}
	return list
}
