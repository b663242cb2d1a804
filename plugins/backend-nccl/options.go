package nccl

import (
	"fmt"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/agreement"
)

// The values of the option isolation.
const (
	isolationAuto     = "auto"
	isolationIsolated = "isolated"
	isolationInproc   = "inproc"
)

type settings struct {
	agreement.Settings
	library string
	shared  bool
}

func options() []sdk.Option {
	return append([]sdk.Option{
		{Name: "library", Type: sdk.String, Doc: "Path of libnccl.so.2, if it is neither among the system's libraries nor in a Python environment."},
		{Name: "isolation", Type: sdk.String, Default: isolationAuto, Enum: []string{isolationAuto, isolationIsolated, isolationInproc},
			Doc: "Where NCCL runs: \"isolated\" in the plugin's process, \"inproc\" in the rank's; \"auto\" decides, and logs the reason."},
		{Name: "allow_shared_device", Type: sdk.Boolean, Default: false,
			Doc: "Let several ranks compute on one GPU, which needs NCCL 2.30 and its experimental switch. For experiments."},
	}, agreement.Options("NCCL")...)
}

func readSettings(o sdk.Options, inProcess bool) (settings, error) {
	s := settings{library: o.String("library"), shared: o.Bool("allow_shared_device")}
	switch mode := o.String("isolation"); mode {
	case "", isolationAuto, isolationIsolated, isolationInproc:
		if mode == isolationInproc && !inProcess {
			return s, fmt.Errorf(`backend nccl: isolation = "inproc" needs the backend that is built into trainctl, by plugin = "nccl"; this one runs in a process of its own`)
		}
	default:
		return s, fmt.Errorf(`backend nccl: isolation = %q is none of "auto", "isolated", "inproc"`, mode)
	}
	var err error
	s.Settings, err = agreement.ReadSettings("nccl", o)
	return s, err
}
