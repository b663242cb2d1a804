package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/metric"
)

// check runs every table's own checks, then those that need several tables or
// the set of keys that were given.
func (c *Config) check() {
	r := c.report
	r.problems("launch", c.Launch.Problems())
	r.problems("backend", c.Backend.Problems())
	r.problems("precision", c.Precision.Problems())
	r.problems("plugins", c.Plugins.Problems())
	for i, o := range c.Observers {
		r.problems(element("observers", i), o.Problems())
	}
	c.checkLayerPlugins()
	r.problems("sampler", c.Sampler.Problems())
	r.problems("lr_scheduler", c.Scheduler.Problems())
	r.problems("optimizer", c.Optimizer.Problems())
	r.problems("ddp", c.DDP.Problems())
	r.problems("eval", c.Eval.Problems())
	r.problems("checkpoint", c.Checkpoint.Problems())
	r.problems("metrics", c.Metrics.Problems())
	r.problems("faults", c.Faults.Problems())
	c.checkRun()
	c.checkDataset()
	c.checkSums()
	c.checkModel()
	c.checkBatch()
	c.checkEvaluation()
	c.checkPrecision()
	c.checkSchedule()
	c.checkElastic()
	c.checkShares()
	c.checkLocal()
	c.checkIneffective()
	def := defaults(c.Optimizer.Name)
	c.unused("optimizer", c.Optimizer.Name, c.Optimizer, def.Optimizer, c.Optimizer.Uses())
	c.unused("lr_scheduler", c.Scheduler.Name, c.Scheduler, def.Scheduler, c.Scheduler.Uses())
}

// RefuseFaults returns an error if the configuration makes faults on purpose: no one
// should run such a file by mistake.
func (c *Config) RefuseFaults() error {
	if len(c.Faults.At) == 0 {
		return nil
	}
	c.report.errorf("faults.at", atKey, "remove the table [faults], or add --allow-faults to see whether the run survives them", "this configuration makes faults on purpose")
	return &Error{Diagnostics: c.report.sorted()}
}

// missing reports a required key as missing, unless it already has an error.
func (c *Config) missing(path, help, format string, args ...any) {
	for p := path; p != ""; p = parent(p) {
		if c.report.meant[p] || c.report.bad[p] {
			return
		}
	}
	c.report.errorf(path, atValue, help, format, args...)
}

func (c *Config) checkDataset() {
	if c.Dataset.Plugin == "" {
		c.missing("dataset.plugin", `add a table [dataset] with plugin = "mnist", or another data set`, "missing: there is nothing to train on")
		return
	}
	c.report.problems("dataset", c.Dataset.Problems())
}

// longestName is the limit of common file systems, in bytes.
const longestName = 255

// checkRun checks the run's name, which becomes the name of a directory.
func (c *Config) checkRun() {
	r, n := c.report, c.Run.Name
	if n == "" || n == "." || n == ".." || strings.ContainsAny(n, "/\\") || strings.ContainsFunc(n, unicode.IsControl) {
		r.errorf("run.name", atValue, `give a plain name such as "mnist-ddp"; run.dir sets the parent directory`, "%q cannot name a directory", n)
	}
	if len(n) > longestName {
		r.errorf("run.name", atValue, "give a shorter name", "the name has %d bytes, and a directory's name may have %d", len(n), longestName)
	}
	if c.Run.Dir == "" {
		r.errorf("run.dir", atValue, `set it to a directory; the default is "runs"`, "must not be empty")
	}
	r.problems("run", c.Run.Problems())
}

// checkModel skips the table's own check for a missing name when the layers, or
// a misspelt key, already have an error.
func (c *Config) checkModel() {
	r := c.report
	if r.bad["model"] || r.meant["model"] || r.bad["model.layers"] || r.meant["model.layers"] {
		return
	}
	r.problems("model", c.Model.Problems())
}

// checkBatch does not report a missing batch size when a wrong or misspelt key
// explains it.
func (c *Config) checkBatch() {
	r := c.report
	for _, key := range []string{"train", "train.global_batch"} {
		if r.bad[key] || r.meant[key] {
			r.bad["train.per_rank_batch"] = true
		}
	}
	r.problems("train", c.Train.Problems())
	world := c.fixedWorld()
	if r.bad["train.global_batch"] || r.bad["train.accumulate_steps"] || world == 0 || c.Train.GlobalBatch <= 0 {
		return
	}
	c.suffices(r, world)
}

func (c *Config) checkEvaluation() {
	if c.Checkpoint.KeepBest == "eval.accuracy" && !c.Eval.Has(metric.Accuracy) {
		c.report.errorf("checkpoint.keep_best", atValue, `add "accuracy" to eval.metrics`, "%q is not measured", c.Checkpoint.KeepBest)
	}
	if strings.HasPrefix(c.Checkpoint.KeepBest, "eval.") && c.Train.EvalEvery == 0 {
		c.report.errorf("checkpoint.keep_best", atValue, "set train.eval_every to 1, or keep the best by \"train.loss\"",
			"%q needs evaluations, and train.eval_every is 0", c.Checkpoint.KeepBest)
	}
}

func (c *Config) checkPrecision() {
	if c.Run.DType == "f64" && c.Precision.Plugin != "none" {
		c.report.errorf("run.dtype", atValue, `set precision.plugin = "none", or run.dtype = "f32"`,
			"f64 is for reference curves and cannot be combined with the precision plugin %q", c.Precision.Plugin)
	}
	if c.Precision.Plugin != "none" {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(c.Precision.Options)) {
		c.report.errorf(join("precision.options", k), atKey, `set precision.plugin = "amp"`, `plugin "none" has no options`)
	}
}

func (c *Config) checkSchedule() {
	if c.Scheduler.Name == "step" && !c.report.given("lr_scheduler.step_size") {
		c.missing("lr_scheduler.step_size", "add step_size, counted in lr_scheduler.unit", "missing: a step schedule needs it")
	}
	if c.Scheduler.Name == "plateau" && c.Train.EvalEvery == 0 {
		c.report.errorf("lr_scheduler.name", atValue, "set train.eval_every to 1, or choose another schedule", "a plateau follows evaluations, and train.eval_every is 0")
	}
	if c.Scheduler.Name == "exponential" && !c.report.given("lr_scheduler.gamma") {
		c.missing("lr_scheduler.gamma", "such as gamma = 0.95", "missing: an exponential schedule needs it")
	}
	if c.Scheduler.Name == "trapezoid" && !c.report.given("lr_scheduler.decay_iters") {
		c.report.bad["lr_scheduler.decay_iters"] = true
		c.missing("lr_scheduler.decay_iters", "add decay_iters, counted in lr_scheduler.unit", "missing: a trapezoid needs it")
	}
}

// checkElastic refuses what depends on the number of ranks during the run.
func (c *Config) checkElastic() {
	if !c.Launch.IsElastic() {
		return
	}
	refuse := func(wrong bool, key, help, why string) {
		if wrong {
			c.report.errorf(key, atValue, help, "the ranks of an elastic job change (launch.elastic): %s", why)
		}
	}
	refuse(c.DDP.Uneven != ddp.UnevenError, "ddp.uneven", `remove it; with train.global_batch ranks may have different numbers of samples`,
		"the rest of an epoch is divided anew whenever they do, so no rank runs out of data before the others")
	refuse(c.DDP.SyncBatchNorm && c.Train.GlobalBatch > 0, "ddp.sync_batchnorm", "remove it, or give train.per_rank_batch instead of global_batch",
		"with fewer ranks a step of train.global_batch has more micro-batches, and each would be normalised over other samples than before")
	refuse(c.DDP.Shard == ddp.ShardOptimizer, "ddp.shard", `set it to "none"`, "the part of the optimizer state that only the lost rank has would be gone")
	refuse(c.DDP.Compress == "powersgd", "ddp.compress", `use "none", "fp16" or "bf16"`, "each rank keeps a compression error of its own, and that of a lost rank would be gone")
	refuse(c.Run.Device == "cuda", "run.device", `use "cpu"`, "collectives on a GPU cannot be ended when another rank is gone")
}

// refusing returns a function that refuses a setting, with the key that forbids it at the end of its detail.
func (c *Config) refusing(because string) func(wrong bool, key, help, detail string) {
	return func(wrong bool, key, help, detail string) {
		if wrong {
			c.report.errorf(key, atValue, help, "%s (%s)", detail, because)
		}
	}
}

// checkShares refuses what does not work with unequal shares.
func (c *Config) checkShares() {
	shares := c.Launch.Shares
	if !shares.Given() || c.report.bad["launch.shares"] {
		return
	}
	refuse := c.refusing("launch.shares")
	world, list := c.fixedWorld(), len(shares.Weights())
	if world > 0 && list > 0 && list != world && !c.Launch.IsElastic() {
		c.report.errorf("launch.shares", atValue, fmt.Sprintf(`give %d, or "auto"`, world), "%s are given, and the job has %s", plural(list, "share"), plural(world, "rank"))
	}
	refuse(c.Launch.IsElastic() && list > 0, "launch.shares", `use "auto"`, "the ranks of an elastic job change, and a list of shares does not follow them")
	refuse(shares.IsAuto() && c.Run.Deterministic, "run.deterministic", "set it to false, or give launch.shares a list",
		`shares that follow measured speeds change the order of sums, so that a run cannot be repeated bit for bit`)
	refuse(c.DDP.Uneven != ddp.UnevenError, "ddp.uneven", "remove it", "ranks with unequal shares have different numbers of batches anyway")
	refuse(!c.Train.AccumulateMean, "train.accumulate_mean", "remove it", "ranks with unequal shares have different numbers of micro-steps, and sums over them would change the gradient")
}

// checkLocal refuses what does not work while each rank trains on its own.
func (c *Config) checkLocal() {
	if !c.DDP.Local() {
		return
	}
	refuse := c.refusing("ddp.sync_every")
	refuse(c.Launch.IsElastic(), "ddp.sync_every", "set it to 1, or launch.elastic to false and launch.nnodes to a number", "ranks of an elastic job have the weights for those that join only if all have the same after every step")
	refuse(c.Launch.Shares.Given(), "launch.shares", "remove it", "averages count all ranks equally, so that all should have as many samples")
	refuse(c.Backend.Restarts > 0, "backend.restarts", "set it to 0, and launch.max_restarts", "averages that were interrupted cannot be repeated")
}

// checkIneffective warns about settings that are accepted but have no effect.
func (c *Config) checkIneffective() {
	warn := func(wrong bool, key, help, detail string) {
		if wrong {
			c.report.warnf(key, help, "%s", detail)
		}
	}
	o, s, d := c.Optimizer, c.Scheduler, c.DDP
	warn(o.Name == "sgd" && o.Momentum == 0 && o.Dampening != 0, "optimizer.dampening", "set momentum, or remove it", "has no effect without momentum")
	warn(s.WarmupSteps == 0 && s.WarmupFactor != optim.DefaultSchedule().WarmupFactor, "lr_scheduler.warmup_factor", "set warmup_steps, or remove it", "has no effect without warm-up")
	warn(s.Name != "plateau" && s.Metric != optim.DefaultSchedule().Metric, "lr_scheduler.metric", `set name = "plateau", or remove it`, "has no effect on another schedule")
	warn(s.Cycles() && o.Momentum != 0 && !o.Nesterov, "optimizer.momentum", "remove it, or set lr_scheduler.cycle_momentum = false", fmt.Sprintf("has no effect: onecycle changes the momentum from %v to %v and back", s.MaxMomentum, s.BaseMomentum))
	def := optim.DefaultSchedule()
	warn(s.Name == "onecycle" && !s.CycleMomentum && (s.BaseMomentum != def.BaseMomentum || s.MaxMomentum != def.MaxMomentum), "lr_scheduler.max_momentum", "set cycle_momentum = true, or remove it", "has no effect without cycle_momentum")
	warn(!c.Train.AccumulateMean && c.Train.AccumulateSteps == 1, "train.accumulate_mean", "set accumulate_steps, or remove it", "has no effect without gradient accumulation")
	warn(d.Compress != "powersgd" && d.PowerSGDRank != ddp.Default().PowerSGDRank, "ddp.powersgd_rank", `set compress = "powersgd", or remove it`, "there are no factors")
	warn(d.Compress != "powersgd" && d.PowerSGDStart != ddp.Default().PowerSGDStart, "ddp.powersgd_start_step", `set compress = "powersgd", or remove it`, "there are no factors")
	warn(d.Outer != ddp.OuterNesterov && d.OuterLR != ddp.Default().OuterLR, "ddp.outer_lr", `set outer = "nesterov", or remove it`, "there is no outer optimizer")
	warn(d.Outer != ddp.OuterNesterov && d.OuterMomentum != ddp.Default().OuterMomentum, "ddp.outer_momentum", `set outer = "nesterov", or remove it`, "there is no outer optimizer")
	warn(d.FindUnusedParameters && !c.Model.LayerDrop(), "ddp.find_unused_parameters", "remove it", "costs a message per step and finds nothing: without layerdrop every parameter takes part in every step")
}

// unused reports settings that the chosen variant would silently ignore. It
// compares values, not presence, since a resolved file names every key.
func (c *Config) unused(table, variant string, got, def any, uses []string) {
	if uses == nil {
		return
	}
	v, d := reflect.ValueOf(got), reflect.ValueOf(def)
	names, idx := fields(v.Type())
	for _, name := range names {
		i := idx[name]
		if slices.Contains(uses, name) || reflect.DeepEqual(v.Field(i).Interface(), d.Field(i).Interface()) {
			continue
		}
		c.report.errorf(join(table, name), atKey,
			fmt.Sprintf("remove it; %s uses %s", variant, strings.Join(uses[1:], ", ")), "%s does not use it", variant)
	}
}
