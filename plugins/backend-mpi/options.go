package mpi

import (
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/sdk"
)

const defaultConnect = 60 * time.Second

type settings struct {
	library      string
	connect      time.Duration
	reproducible bool
	ports        hostnet.Ports
}

func options() []sdk.Option {
	lowest, highest := 1.0, 65535.0
	return []sdk.Option{
		{Name: "library", Type: sdk.String, Doc: "Path of the MPI library (libmpi.so.40 of Open MPI, libmpi.so.12 or libmpich.so.12 of MPICH), if it is not where the system looks for libraries. It must be that of mpirun or srun."},
		{Name: "reproducible", Type: sdk.Boolean, Default: true,
			Doc: "Add in rank order, so that a sum has the same bits in every run and as with the backend tcp; false lets MPI add float32, float64 and integers in the order that is fastest in its network."},
		{Name: "connect_timeout", Type: sdk.Duration, Default: defaultConnect.String(),
			Doc: "Time limit until all ranks have started MPI."},
		{Name: "port_range", Type: sdk.IntList, Min: &lowest, Max: &highest,
			Doc: "First and last port where rank 0 listens for the other ranks; MPI's own connections do not use it. Default: the system picks a free port."},
	}
}

func readSettings(o sdk.Options) (settings, error) {
	s := settings{library: o.String("library"), connect: defaultConnect, reproducible: !o.Has("reproducible") || o.Bool("reproducible")}
	if o.Has("connect_timeout") {
		if s.connect = o.Duration("connect_timeout"); s.connect <= 0 {
			return s, fmt.Errorf("backend mpi: connect_timeout = %q is not a positive duration such as \"60s\"", o.String("connect_timeout"))
		}
	}
	var err error
	if s.ports, err = hostnet.PortsOf(o.Ints("port_range")); err != nil {
		return s, fmt.Errorf("backend mpi: %w", err)
	}
	return s, nil
}
