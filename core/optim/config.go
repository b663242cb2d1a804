package optim

// Config is the table [optimizer]. Names and defaults are PyTorch's.
type Config struct {
	Name        string     `toml:"name"`         // "sgd", "adam" or "adamw"
	LR          float64    `toml:"lr"`           // learning rate at the start, before schedules
	Momentum    float64    `toml:"momentum"`     // sgd
	Dampening   float64    `toml:"dampening"`    // sgd
	Nesterov    bool       `toml:"nesterov"`     // sgd; needs momentum > 0 and dampening = 0
	WeightDecay float64    `toml:"weight_decay"` // adamw: default 0.01
	Betas       [2]float64 `toml:"betas"`        // adam, adamw
	Eps         float64    `toml:"eps"`          // adam, adamw
	AMSGrad     bool       `toml:"amsgrad"`      // adam, adamw
	Maximize    bool       `toml:"maximize"`
}

// ScheduleConfig is the table [lr_scheduler]. Schedules count applied steps.
type ScheduleConfig struct {
	Name         string  `toml:"name"`          // "constant", "step", "multistep", "cosine" or "linear"
	Unit         string  `toml:"unit"`          // what step_size, milestones and t_max count: "epoch" or "step"
	StepSize     int     `toml:"step_size"`     // step: units between two decays
	Gamma        float64 `toml:"gamma"`         // step, multistep: factor of a decay
	Milestones   []int   `toml:"milestones"`    // multistep: units at which the rate decays, ascending
	TMax         int     `toml:"t_max"`         // cosine: units of the half period; 0: the whole run
	EtaMin       float64 `toml:"eta_min"`       // cosine: lowest rate
	StartFactor  float64 `toml:"start_factor"`  // linear: factor at the start
	EndFactor    float64 `toml:"end_factor"`    // linear: factor at the end
	TotalIters   int     `toml:"total_iters"`   // linear: units between them; 0: the whole run
	WarmupSteps  int     `toml:"warmup_steps"`  // steps over which the rate rises linearly, for any schedule; 0: none
	WarmupFactor float64 `toml:"warmup_factor"` // fraction of the rate at step 0
}
