package event

// Config is the table [metrics].
type Config struct {
	TensorBoard bool   `toml:"tensorboard"` // write tensorboard/ event files
	JSONL       bool   `toml:"jsonl"`       // write events.jsonl
	Prometheus  string `toml:"prometheus"`  // address to serve metrics on; empty: off
}
