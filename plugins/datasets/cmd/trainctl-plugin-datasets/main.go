// Command trainctl-plugin-datasets serves one of the built-in data sets as a
// plugin binary of its own. It takes the data set's name from its first
// argument, or else from its file name: linked as trainctl-plugin-synthetic it
// serves synthetic. Under its own name it serves mnist.
package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets"
)

func main() {
	builtins := datasets.Builtins(afero.NewOsFs())
	sdk.Serve(sdk.Plugin{Dataset: choose(builtins, os.Args).New})
}

func choose(builtins []datasets.Builtin, args []string) datasets.Builtin {
	name := strings.TrimPrefix(filepath.Base(args[0]), "trainctl-plugin-")
	if len(args) > 1 {
		name = args[1]
	}
	chosen := builtins[0]
	for _, b := range builtins {
		if b.Name == name {
			return b
		}
		if b.Name == "mnist" {
			chosen = b
		}
	}
	return chosen
}
