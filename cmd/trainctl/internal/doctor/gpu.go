package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/base/bytesize"
	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// gpuBudget bounds the wait for the driver, which may never answer after it lost
// its device.
const gpuBudget = 30 * time.Second

// inspectGPU queries the libraries in a goroutine. If they do not answer, the
// goroutine is abandoned: the program ends soon after.
func inspectGPU(ctx context.Context) driver.Inspection {
	ctx, cancel := context.WithTimeout(ctx, gpuBudget)
	defer cancel()
	answer := make(chan driver.Inspection, 1)
	go func() { answer <- driver.Inspect(dl.System()) }()
	select {
	case in := <-answer:
		return in
	case <-ctx.Done():
		return driver.Inspection{Problems: []string{fmt.Sprintf("the NVIDIA libraries did not answer within %v; fix: see dmesg for Xid errors", gpuBudget)}}
	}
}

// gpuChecks turns an inspection into checks. None of them is a failure: training
// on the CPU needs no GPU.
func gpuChecks(in driver.Inspection) []Check {
	var out []Check
	add := func(c Check) {
		c.Area = "gpu"
		out = append(out, c)
	}
	for _, l := range in.Libraries {
		c := Check{Name: l.Name, Verdict: fine, Found: fmt.Sprintf("%s, %s (%s)", l.Version, l.Path, l.Source), Fix: l.Fix}
		switch {
		case l.Error != "" && l.Path == "":
			c.Verdict, c.Found = absence, l.Error
		case l.Error != "":
			c.Verdict, c.Found = remark, l.Error
		case len(l.Missing) > 0:
			c.Found += "; without " + strings.Join(l.Missing, ", ")
		}
		if l.Error != "" {
			c.Found += without[l.Name]
		}
		add(c)
	}
	for _, d := range in.Devices {
		add(Check{Name: fmt.Sprintf("device %d", d.Ordinal), Verdict: fine, Found: fmt.Sprintf("%s, compute capability %s, %d multiprocessors, %s; memory is shared by %s",
			d.Name, d.Capability, d.SMs, bytesize.Text(d.Memory), d.IPC)})
	}
	if len(in.Devices) == 0 {
		add(Check{Name: "devices", Verdict: absence, Found: "none"})
	}
	add(autoDevice())
	for _, p := range in.Problems {
		add(Check{Name: "fit", Verdict: remark, Found: p})
	}
	if mps, on := driver.MPS(dl.System().Getenv); on {
		add(Check{Name: "MPS", Verdict: fine, Found: "a control daemon runs at " + mps + ": plugins and their ranks compute concurrently"})
	}
	return out
}

// without is the effect of a missing library.
var without = map[string]string{
	driver.SpecDNN.Name:    "; convolutions on a GPU use trainctl's own kernels, which are slow",
	driver.SpecBlasLt.Name: "; matrix products on a GPU use trainctl's own kernels, which are slow",
}

// autoDevice reports the device that run.device = "auto" selects here.
func autoDevice() Check {
	m, err := app.Survey(context.Background(), "auto")
	if err != nil {
		return Check{Name: "run.device", Verdict: remark, Found: err.Error()}
	}
	return Check{Name: "run.device", Verdict: fine, Found: `"auto" is ` + m.String()}
}
