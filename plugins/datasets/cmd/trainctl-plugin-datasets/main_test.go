package main

import (
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/plugins/datasets"
)

func TestChoose(t *testing.T) {
	for want, args := range map[string][]string{
		"mnist":         {"/opt/trainctl-plugin-datasets"},
		"synthetic":     {"./trainctl-plugin-synthetic"},
		"fashion-mnist": {"trainctl-plugin-datasets", "fashion-mnist"},
	} {
		if got := choose(datasets.Builtins(afero.NewMemMapFs()), args).Name; got != want {
			t.Errorf("%q serves %s, want %s", args, got, want)
		}
	}
}
