package mpi

import (
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/agreement"
)

type settings struct {
	agreement.Settings
	library      string
	reproducible bool
}

func options() []sdk.Option {
	own := []sdk.Option{
		{Name: "library", Type: sdk.String, Doc: "Path of the MPI library (libmpi.so.40 of Open MPI, libmpi.so.12 or libmpich.so.12 of MPICH), if it is not where the system looks for libraries. It must be that of mpirun or srun."},
		{Name: "reproducible", Type: sdk.Boolean, Default: true,
			Doc: "Add in rank order, so that a sum has the same bits in every run and as with the backend tcp; false lets MPI add float32 and float64 in the order that is fastest in its network."},
	}
	return append(own, agreement.Options("MPI")...)
}

func readSettings(o sdk.Options) (s settings, err error) {
	s = settings{library: o.String("library"), reproducible: !o.Has("reproducible") || o.Bool("reproducible")}
	s.Settings, err = agreement.ReadSettings("mpi", o)
	return s, err
}
