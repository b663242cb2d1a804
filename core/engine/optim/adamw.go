package optim

// adamw is torch.optim.AdamW: Adam whose weight decay does not pass through
// the moments (Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization").
type adamw struct{ adam }

func (adamw) name() string { return "adamw" }

func (adamw) defaults(c *Config) { c.WeightDecay = 0.01 }

func (adamw) update(c Config, lr float64, step int64, s *slot) { adapt(c, lr, step, s, true) }
