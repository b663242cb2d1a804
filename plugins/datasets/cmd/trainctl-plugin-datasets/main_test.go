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
		got, err := choose(datasets.Builtins(afero.NewMemMapFs()), args)
		if err != nil || got.Name != want {
			t.Errorf("%q serves %q, %v; want %s", args, got.Name, err, want)
		}
	}
	if _, err := choose(datasets.Builtins(afero.NewMemMapFs()), []string{"x", "mnits"}); err == nil {
		t.Error("an unknown name was accepted")
	}
}
