package optim

// Uses lists the keys of [optimizer] that mean something to the named
// optimizer, nil when the name is unknown.
func (c Config) Uses() []string {
	common := []string{"name", "lr", "weight_decay", "maximize"}
	switch c.Name {
	case "sgd":
		return append(common, "momentum", "dampening", "nesterov")
	case "lars":
		return append(common, "momentum", "dampening", "nesterov", "eps", "trust_coefficient")
	case "adam", "adamw":
		return append(common, "betas", "eps", "amsgrad")
	}
	return nil
}

// Uses lists the keys of [lr_scheduler] that mean something to the named
// schedule, nil when the name is unknown.
func (c ScheduleConfig) Uses() []string {
	common := []string{"name", "unit", "warmup_steps", "warmup_factor"}
	switch c.Name {
	case "constant":
		return common
	case "step":
		return append(common, "step_size", "gamma")
	case "multistep":
		return append(common, "milestones", "gamma")
	case "cosine":
		return append(common, "t_max", "eta_min")
	case "linear":
		return append(common, "start_factor", "end_factor", "total_iters")
	}
	return nil
}
