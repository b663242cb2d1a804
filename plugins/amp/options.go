package amp

import (
	"fmt"
	"strconv"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

func limit(v float64) *float64 { return &v }

// options are the keys of [precision.options]. Keys without a default here have
// defaults that depend on level and dtype.
var options = []sdk.Option{
	{Name: "level", Type: sdk.String, Enum: []string{"O0", "O1", "O2", "O3"},
		Doc: "apex optimisation level; without it, autocast"},
	{Name: "dtype", Type: sdk.String, Enum: []string{"bf16", "fp16"},
		Doc: "the lower type; default bf16 for autocast, fp16 with a level"},
	{Name: "loss_scale", Type: sdk.String,
		Doc: `"dynamic" or a number; default dynamic for fp16 autocast, O1 and O2 with fp16, otherwise 1`},
	{Name: "init_scale", Type: sdk.Float, Min: limit(1e-30), Doc: "first scale of a dynamic loss scale; default 65536"},
	{Name: "growth_factor", Type: sdk.Float, Min: limit(1), Doc: "factor after growth_interval good steps; default 2"},
	{Name: "backoff_factor", Type: sdk.Float, Min: limit(1e-30), Max: limit(1), Doc: "factor after a step that is not finite; default 0.5"},
	{Name: "growth_interval", Type: sdk.Int, Min: limit(1), Unit: "steps", Doc: "good steps in a row before the scale grows; default 2000"},
	{Name: "min_loss_scale", Type: sdk.Float, Min: limit(0), Doc: "lowest dynamic scale with a level; default none"},
	{Name: "max_loss_scale", Type: sdk.Float, Min: limit(1), Doc: "highest dynamic scale with a level; default 16777216"},
	{Name: "keep_batchnorm_fp32", Type: sdk.Boolean, Doc: "override of the level's property, for O2 and O3"},
	{Name: "master_weights", Type: sdk.Boolean, Doc: "override of the level's property, for O2 and O3"},
}

// settings are the options with all defaults filled in.
type settings struct {
	level   string // "" for autocast
	dtype   tensor.DType
	dynamic bool
	scale   float64 // initial, or static
	growth  float64
	backoff float64
	every   int64
	min     float64
	max     float64
	keepBN  *bool // nil: not a property of this mode ("None" in apex)
	master  *bool
}

// read fills in defaults and rejects combinations that are not allowed.
func read(o sdk.Options) (settings, error) {
	s := settings{level: o.String("level"), scale: 1, growth: 2, backoff: 0.5, every: 2000, max: 1 << 24}
	s.dtype = s.lowerType(o.String("dtype"))
	s.levelDefaults()
	if err := s.override(o); err != nil {
		return s, err
	}
	if err := s.lossScale(o.String("loss_scale")); err != nil {
		return s, err
	}
	return s, s.scaler(o)
}

func (s *settings) lowerType(name string) tensor.DType {
	switch {
	case name == "fp16", name == "" && s.level != "":
		return tensor.F16
	}
	return tensor.BF16
}

// levelDefaults sets the properties of apex/amp/frontend.py.
func (s *settings) levelDefaults() {
	yes, no := true, false
	switch s.level {
	case "":
		s.dynamic = s.dtype == tensor.F16
	case "O0":
		s.master = &no
	case "O1":
		s.dynamic = s.dtype == tensor.F16
	case "O2":
		s.keepBN, s.master = &yes, &yes
		s.dynamic = s.dtype == tensor.F16
	case "O3":
		s.keepBN, s.master = &no, &no
	}
}

// override applies single properties on top of a level, as amp.initialize does.
func (s *settings) override(o sdk.Options) error {
	set := func(name string, p **bool) error {
		if !o.Has(name) {
			return nil
		}
		switch s.level {
		case "O2", "O3":
			v := o.Bool(name)
			*p = &v
			return nil
		case "":
			return fmt.Errorf("%s only applies with a level (autocast keeps weights and batch norm in float32): remove it, or set level", name)
		case "O1":
			return fmt.Errorf("%s cannot be combined with O1, whose weights stay float32: remove it, or use O2", name)
		}
		return fmt.Errorf("%s cannot be combined with O0, where everything is float32: remove it", name)
	}
	if err := set("keep_batchnorm_fp32", &s.keepBN); err != nil {
		return err
	}
	if o.Has("dtype") && s.level == "O0" {
		return fmt.Errorf("dtype cannot be combined with O0, where everything is float32: remove it, or use another level")
	}
	return set("master_weights", &s.master)
}

func (s *settings) lossScale(text string) error {
	switch text {
	case "":
		return nil
	case "dynamic":
		s.dynamic = true
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0) {
		return fmt.Errorf("loss_scale = %q: want \"dynamic\" or a positive number in quotes", text)
	}
	s.dynamic, s.scale = false, v
	return nil
}

// scaler reads the constants of a dynamic loss scale.
func (s *settings) scaler(o sdk.Options) error {
	names := []string{"init_scale", "growth_factor", "backoff_factor", "growth_interval", "min_loss_scale", "max_loss_scale"}
	for i, name := range names {
		switch {
		case !o.Has(name):
		case !s.dynamic:
			return fmt.Errorf("%s needs a dynamic loss scale, and loss_scale is fixed at %g: remove it, or set loss_scale = \"dynamic\"", name, s.scale)
		case i >= 4 && s.level == "":
			return fmt.Errorf("%s only applies with a level; torch's GradScaler has no limits: remove it", name)
		}
	}
	if !s.dynamic {
		return nil
	}
	s.scale = 65536
	if o.Has("max_loss_scale") {
		s.max = o.Float("max_loss_scale")
	}
	if s.level != "" {
		s.scale = min(s.max, s.scale)
	}
	take := func(name string, v *float64) {
		if o.Has(name) {
			*v = o.Float(name)
		}
	}
	take("init_scale", &s.scale)
	take("growth_factor", &s.growth)
	take("backoff_factor", &s.backoff)
	take("min_loss_scale", &s.min)
	if o.Has("growth_interval") {
		s.every = o.Int("growth_interval")
	}
	if s.growth <= 1 {
		return fmt.Errorf("growth_factor = %g is not above 1: give more than 1", s.growth)
	}
	if s.backoff >= 1 {
		return fmt.Errorf("backoff_factor = %g is not below 1: give less than 1", s.backoff)
	}
	if s.level != "" && (s.scale < s.min || s.scale > s.max) {
		return fmt.Errorf("init_scale = %g is outside min_loss_scale = %g and max_loss_scale = %g", s.scale, s.min, s.max)
	}
	return nil
}
