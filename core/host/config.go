package host

import "time"

// Each plugin table has a name, a deadline or two, and the plugin's own
// options, which the core passes through without knowing them.

// BackendConfig is the table [backend].
type BackendConfig struct {
	Plugin      string         `toml:"plugin"`       // "auto", "tcp", "nccl" or a path
	Timeout     time.Duration  `toml:"timeout"`      // for one collective
	InitTimeout time.Duration  `toml:"init_timeout"` // from the start of the plugin to the first collective
	Options     map[string]any `toml:"options"`
}

// PrecisionConfig is the table [precision].
type PrecisionConfig struct {
	Plugin  string         `toml:"plugin"` // "none", "amp" or a path
	Options map[string]any `toml:"options"`
}

// DatasetConfig is the table [dataset].
type DatasetConfig struct {
	Plugin  string         `toml:"plugin"`  // "mnist", "fashion-mnist", "synthetic" or a path
	Timeout time.Duration  `toml:"timeout"` // for one batch
	Options map[string]any `toml:"options"`
}
