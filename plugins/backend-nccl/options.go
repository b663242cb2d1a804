package nccl

import (
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/sdk"
)

// The values of the option isolation.
const (
	isolationAuto     = "auto"
	isolationIsolated = "isolated"
	isolationInproc   = "inproc"
)

const defaultConnect = 60 * time.Second

type settings struct {
	library string
	connect time.Duration
	shared  bool
	ports   hostnet.Ports
}

func options() []sdk.Option {
	lowest, highest := 1.0, 65535.0
	return []sdk.Option{
		{Name: "library", Type: sdk.String, Doc: "Path of libnccl.so.2, if it is neither among the system's libraries nor in a Python environment."},
		{Name: "isolation", Type: sdk.String, Default: isolationAuto, Enum: []string{isolationAuto, isolationIsolated, isolationInproc},
			Doc: "Where NCCL runs: \"isolated\" in the plugin's process, \"inproc\" in the rank's; \"auto\" decides, and logs the reason."},
		{Name: "allow_shared_device", Type: sdk.Boolean, Default: false,
			Doc: "Let several ranks compute on one GPU, which needs NCCL 2.30 and its experimental switch. For experiments."},
		{Name: "connect_timeout", Type: sdk.Duration, Default: defaultConnect.String(),
			Doc: "Time limit until all ranks have joined the communicator."},
		{Name: "port_range", Type: sdk.IntList, Min: &lowest, Max: &highest,
			Doc: "First and last port where rank 0 listens for the other ranks; NCCL's own connections do not use it. Default: the system picks a free port."},
	}
}

func readSettings(o sdk.Options, inProcess bool) (settings, error) {
	s := settings{library: o.String("library"), connect: defaultConnect, shared: o.Bool("allow_shared_device")}
	switch mode := o.String("isolation"); mode {
	case "", isolationAuto, isolationIsolated, isolationInproc:
		if mode == isolationInproc && !inProcess {
			return s, fmt.Errorf(`backend nccl: isolation = "inproc" needs the backend that is built into trainctl, by plugin = "nccl"; this one runs in a process of its own`)
		}
	default:
		return s, fmt.Errorf(`backend nccl: isolation = %q is none of "auto", "isolated", "inproc"`, mode)
	}
	if o.Has("connect_timeout") {
		if s.connect = o.Duration("connect_timeout"); s.connect <= 0 {
			return s, fmt.Errorf("backend nccl: connect_timeout = %q is not a positive duration such as \"60s\"", o.String("connect_timeout"))
		}
	}
	var err error
	if s.ports, err = hostnet.PortsOf(o.Ints("port_range")); err != nil {
		return s, fmt.Errorf("backend nccl: %w", err)
	}
	return s, nil
}
