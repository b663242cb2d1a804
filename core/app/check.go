package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/replica"
)

// CheckModel checks a configuration against the shape of the data set's samples: it reports what
// the planner rejects, and a model.init file that exists here but does not fit this model. It
// starts layer plugins alone. It skips a data set that is not built in, or that needs files missing on this
// machine to report its shape. The error is a *config.Error with lines and columns.
func CheckModel(ctx context.Context, o ForecastOptions) error {
	f := newForecaster(ctx, o)
	defer f.close()
	if !f.host.BuiltIn(sdk.KindDataset, f.cfg.Dataset.Plugin) {
		return nil
	}
	var err error
	if f.spec, err = f.dataset(ctx); err != nil {
		if usererr.Problems(err) == nil {
			return nil
		}
		return AtPlace(f.cfg, usererr.Under("dataset.options", err))
	}
	if err := f.outlined(ctx); err != nil {
		return AtPlace(f.cfg, err)
	}
	return AtPlace(f.cfg, f.checkInit(ctx))
}

// outlined computes the outline without starting a precision plugin: shapes do not
// depend on the policy.
func (f *forecaster) outlined(ctx context.Context) (err error) {
	if !f.host.BuiltIn(sdk.KindPrecision, f.cfg.Precision.Plugin) {
		c := *f.cfg
		c.Precision.Plugin, c.Precision.Options = "none", nil
		f.cfg = &c
	}
	if f.policy, err = f.precision(ctx); err != nil {
		return err
	}
	return f.outlineOf(ctx)
}

func (f *forecaster) checkInit(ctx context.Context) error {
	if f.cfg.Model.Init == "" {
		return nil
	}
	in, err := replica.CheckInit(ctx, checkpoint.OsFS(), f.cfg.Model, f.outline.Graph)
	switch {
	case err == nil:
		f.init = in.Lines()
		return nil
	case errors.Is(err, fs.ErrNotExist): // it may be on another machine
		f.init = []string{f.cfg.Model.Init + " is not on this machine"}
		if f.cfg.Model.InitFallback == nn.FallbackRandom {
			f.init[0] += `; a run starts from random weights, because of init_fallback = "random"`
		}
		return nil
	}
	return usererr.List{{Key: "model.init", Detail: fmt.Sprint(err)}}.Err()
}

// AtPlace adds lines and columns of the configuration to the problems in an error; it
// returns other errors unchanged.
func AtPlace(c *config.Config, err error) error {
	if l := usererr.Problems(err); l != nil {
		return c.Refuse(l)
	}
	return err
}
