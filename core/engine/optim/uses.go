package optim

// Uses lists the keys of [optimizer] that mean something to the named
// optimizer, nil when the name is unknown.
func (c Config) Uses() []string {
	r := c.rule()
	if r == nil {
		return nil
	}
	return append([]string{"name", "lr", "weight_decay", "decay", "maximize", "groups", "ema_decay"}, r.keys()...)
}

// Uses lists the keys of [lr_scheduler] that mean something to the named
// schedule, nil when the name is unknown.
func (c ScheduleConfig) Uses() []string {
	common := []string{"name", "unit", "warmup_steps", "warmup_factor", "warmup_mode", "metric", "batch_scaling"}
	switch c.Name {
	case "constant":
		return common
	case "step":
		return append(common, "step_size", "gamma")
	case "multistep":
		return append(common, "milestones", "gamma")
	case "cosine":
		return append(common, "t_max", "eta_min")
	case "plateau":
		return append(common, "gamma", "eta_min", "patience", "threshold", "threshold_abs", "cooldown")
	case "exponential":
		return append(common, "gamma")
	case "onecycle":
		return append(common, "total_iters", "pct_start", "div_factor", "final_div_factor", "anneal_linear", "three_phase", "cycle_momentum", "base_momentum", "max_momentum")
	case "trapezoid":
		return append(common, "total_iters", "decay_iters", "end_factor")
	case "linear":
		return append(common, "start_factor", "end_factor", "total_iters")
	}
	return nil
}
