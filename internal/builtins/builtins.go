package builtins

import (
	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/amp"
	mpi "github.com/trainctl/trainctl/plugins/backend-mpi"
	nccl "github.com/trainctl/trainctl/plugins/backend-nccl"
	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
	"github.com/trainctl/trainctl/plugins/datasets"
	mlflow "github.com/trainctl/trainctl/plugins/observer-mlflow"
)

// List returns the plugins that this executable serves itself.
func List() []host.Builtin {
	backend := func(name string, f func() sdk.Backend) host.Builtin {
		return host.Builtin{Kind: sdk.KindBackend, Name: name, Plugin: sdk.Plugin{Backend: f}}
	}
	precision := func(name string, f func() sdk.Precision) host.Builtin {
		return host.Builtin{Kind: sdk.KindPrecision, Name: name, Plugin: sdk.Plugin{Precision: f}}
	}
	underMPI := backend("mpi", func() sdk.Backend { return mpi.New() })
	underMPI.Env, underMPI.StopTimeout = mpi.Variables(), mpi.StopTimeout
	none := precision("none", func() sdk.Precision { return amp.NewNone() })
	none.Constant = true
	list := []host.Builtin{
		underMPI,
		backend("nccl", func() sdk.Backend { return nccl.New() }),
		backend("tcp", func() sdk.Backend { return tcp.New() }),
		{Kind: sdk.KindObserver, Name: "mlflow", Env: mlflow.Variables, Plugin: sdk.Plugin{Observer: func() sdk.Observer { return mlflow.New() }}},
		precision("amp", func() sdk.Precision { return amp.New() }),
		none,
	}
	for _, d := range datasets.Builtins(afero.NewOsFs()) {
		list = append(list, host.Builtin{Kind: sdk.KindDataset, Name: d.Name, Plugin: sdk.Plugin{Dataset: d.New}})
	}
	return list
}

// Infos returns the Info of the built-in plugins.
func Infos() (list []sdk.Info) {
	for _, b := range List() {
		switch b.Kind {
		case sdk.KindBackend:
			list = append(list, b.Plugin.Backend().Info())
		case sdk.KindPrecision:
			list = append(list, b.Plugin.Precision().Info())
		case sdk.KindObserver:
			list = append(list, b.Plugin.Observer().Info())
		case sdk.KindDataset:
			list = append(list, b.Plugin.Dataset().Info())
		}
	}
	return list
}
