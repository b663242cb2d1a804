package app

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/fx"

	"github.com/trainctl/trainctl/core/base/tempdir"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/engine/cuda"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk/sdktest/membackend"
)

// What constructors have started is stopped, the last first, even if one of them fails.
func TestConstructionThatFailsIsUndone(t *testing.T) {
	var ended []string
	ends := func(name string, err error) fx.Option {
		return fx.Invoke(func(lc fx.Lifecycle) error {
			lc.Append(fx.Hook{OnStop: func(context.Context) error { ended = append(ended, name); return nil }})
			return err
		})
	}
	broken := errors.New("the last one breaks")
	err := withRunner(Options{Config: &config.Config{}}, []fx.Option{ends("first", nil), ends("last", broken)}, nil)
	if !errors.Is(err, broken) || !slices.Equal(ended, []string{"last", "first"}) {
		t.Errorf("ended %v: %v", ended, err)
	}
}

// Without a driver "auto" is the CPU and says why, "cuda" is refused with the
// exit code of what is missing; "cpu" does not look for one.
func TestSurveyWithoutADriver(t *testing.T) {
	t.Setenv("TRAINCTL_LIBCUDA", filepath.Join(t.TempDir(), "libcuda.so.1"))
	m, err := Survey(t.Context(), "auto")
	if err != nil || m.Device != "cpu" || !strings.Contains(m.Why, "no NVIDIA driver") || strings.Contains(m.Why, "install") {
		t.Errorf("auto: %+v, %v", m, err)
	}
	var missing *cuda.MissingError
	if _, err := Survey(t.Context(), "cuda"); !errors.As(err, &missing) || missing.ExitCode() != 3 || !strings.Contains(err.Error(), `run.device = "cuda": no NVIDIA driver`) {
		t.Errorf("cuda: %v", err)
	}
	if m, err := Survey(t.Context(), "cpu"); err != nil || m.Device != "cpu" || m.Why != "" {
		t.Errorf("cpu: %+v, %v", m, err)
	}
}

// What replaces a part that a worker does not have is an error that names it, before anything starts:
// fx itself would ignore it, and the test would run with the part that it meant to replace.
func TestReplacedPartsMustExist(t *testing.T) {
	backend := host.InProcessBackend(membackend.NewWorld().New())
	for name, o := range map[string]fx.Option{
		"*host.Backend": fx.Replace(backend),
		"*app.Starting[*github.com/trainctl/trainctl/core/plugin/host.Backend]": fx.Replace(ready(backend)),
		"*tempdir.Dir": fx.Decorate(func(d *tempdir.Dir) *tempdir.Dir { return d }),
	} {
		started := false
		use := func(*runner) error { started = true; return nil }
		err := withRunner(options(t), []fx.Option{fx.Replace(rank.Single()), o}, use)
		if err == nil || started || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "Starting") {
			t.Errorf("%s: started %v: %v", name, started, err)
		}
	}
}
