package page

import "github.com/trainctl/trainctl/core/report/rundir"

// chart describes a chart over the steps.
type chart struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Unit   string `json:"unit"`
	Log    bool   `json:"log,omitempty"`   // a logarithmic axis makes sense
	Scale  scale  `json:"scale,omitempty"` // values are multiplied by it; 0: 1
	metric rundir.Metric
}

type scale float64

func (s scale) of(v float64) float64 {
	if s == 0 {
		return v
	}
	return v * float64(s)
}

// charts are all charts, in the order of the page. Those without values are left out.
var charts = []chart{
	{"loss", "Loss", "", true, 0, rundir.Loss},
	{"accuracy", "Accuracy", "%", false, 100, rundir.Accuracy},
	{"lr", "Learning rate", "", true, 0, rundir.LearningRate},
	{"grad_norm", "Gradient norm before clipping", "", true, 0, rundir.GradNorm},
	{"scale", "Loss scale", "", true, 0, rundir.LossScale},
	{"samples_per_sec", "Throughput", "samples/s", false, 0, rundir.SamplesPerSec},
	{"tokens_per_sec", "Throughput in tokens", "tokens/s", false, 0, rundir.TokensPerSec},
	{"step_ms", "Step time", "ms", true, 0, rundir.StepMS},
	{"data_ms", "Waiting for data", "ms", false, 0, rundir.DataMS},
	{"comm_ms", "Waiting for communication", "ms", false, 0, rundir.CommMS},
}
