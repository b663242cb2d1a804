package checkpoint

// Config is the table [checkpoint].
type Config struct {
	Every    string `toml:"every"`     // "1 epoch", "500 steps" or "never"; the end of a run always saves unless never
	Keep     int    `toml:"keep"`      // newest checkpoints to keep; 0: all
	KeepBest string `toml:"keep_best"` // metric whose best checkpoint is kept as well: "eval.accuracy", "eval.loss", "train.loss"; empty: none
	Prefix   string `toml:"prefix"`    // put before every key: "" or "module."
	Async    bool   `toml:"async"`     // write while training goes on, from a copy
}
