package train

// RunConfig is the table [run].
type RunConfig struct {
	Name          string `toml:"name"`          // names the run directory; default: the file's name
	Seed          uint64 `toml:"seed"`          // of initialisation, order, dropout and augmentation
	Dir           string `toml:"dir"`           // runs go to <dir>/<name>/<n>
	Device        string `toml:"device"`        // "auto" or "cpu"
	Deterministic bool   `toml:"deterministic"` // refuse plugins that do not promise bitwise repeatability
	Fuse          bool   `toml:"fuse"`          // let the plan fuse ops
	DType         string `toml:"dtype"`         // "f32", or "f64" for reference curves
}

// Config is the table [train].
type Config struct {
	Epochs          int     `toml:"epochs"`           // passes over the training data
	MaxSteps        int     `toml:"max_steps"`        // end the run after this many steps (evaluation still follows); 0: no limit
	PerRankBatch    int     `toml:"per_rank_batch"`   // samples per rank and micro-step; this or global_batch
	GlobalBatch     int     `toml:"global_batch"`     // samples over all ranks and micro-steps of one optimizer step
	AccumulateSteps int     `toml:"accumulate_steps"` // micro-steps per optimizer step; only the last one communicates
	AccumulateMean  bool    `toml:"accumulate_mean"`  // divide by accumulate_steps, so that the result equals one big batch; false sums as DDP's no_sync does
	MaxNorm         float64 `toml:"max_norm"`         // clip the total gradient norm after the reduce; 0: off
	EvalEvery       int     `toml:"eval_every"`       // epochs between evaluations; 0: never
	EvalBatch       int     `toml:"eval_batch"`       // samples per rank and evaluation step; 0: as in training
	LogFreq         int     `toml:"log_freq"`         // steps between progress lines where there is no terminal
	MaxSkips        int     `toml:"max_skips"`        // end the run after this many steps in a row with non-finite gradients
}
