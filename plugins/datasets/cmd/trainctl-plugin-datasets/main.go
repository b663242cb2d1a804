package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets"
)

func main() {
	chosen, err := choose(datasets.Builtins(afero.NewOsFs()), os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	sdk.Serve(sdk.Plugin{Dataset: chosen.New})
}

func choose(builtins []datasets.Builtin, args []string) (datasets.Builtin, error) {
	byName, names := map[string]datasets.Builtin{}, []string{}
	for _, b := range builtins {
		byName[b.Name] = b
		names = append(names, b.Name)
	}
	if len(args) > 1 {
		b, ok := byName[args[1]]
		if !ok {
			return b, fmt.Errorf("unknown data set %q; known are %s", args[1], strings.Join(names, ", "))
		}
		return b, nil
	}
	if b, ok := byName[strings.TrimPrefix(filepath.Base(args[0]), "trainctl-plugin-")]; ok {
		return b, nil
	}
	return byName["mnist"], nil
}
