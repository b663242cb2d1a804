package main

import (
	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/amp"
	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
	"github.com/trainctl/trainctl/plugins/datasets/mnist"
	"github.com/trainctl/trainctl/plugins/datasets/synthetic"
)

// builtins are the plugins that this executable serves itself.
func builtins() []host.Builtin {
	backend := func(name string, f func() sdk.Backend) host.Builtin {
		return host.Builtin{Kind: sdk.KindBackend, Name: name, Plugin: sdk.Plugin{Backend: f}}
	}
	precision := func(name string, f func() sdk.Precision) host.Builtin {
		return host.Builtin{Kind: sdk.KindPrecision, Name: name, Plugin: sdk.Plugin{Precision: f}}
	}
	dataset := func(name string, f func() sdk.Dataset) host.Builtin {
		return host.Builtin{Kind: sdk.KindDataset, Name: name, Plugin: sdk.Plugin{Dataset: f}}
	}
	return []host.Builtin{
		backend("tcp", func() sdk.Backend { return tcp.New() }),
		precision("amp", func() sdk.Precision { return amp.New() }),
		precision("none", func() sdk.Precision { return amp.NewNone() }),
		dataset("mnist", func() sdk.Dataset { return mnist.New(afero.NewOsFs()) }),
		dataset("fashion-mnist", func() sdk.Dataset { return mnist.NewFashion(afero.NewOsFs()) }),
		dataset("synthetic", func() sdk.Dataset { return synthetic.New() }),
	}
}
