package app

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.uber.org/fx"

	"github.com/trainctl/trainctl/core/config"
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
