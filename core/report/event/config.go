package event

import (
	"net"
	"strconv"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// Config is the table [metrics].
type Config struct {
	TensorBoard bool   `toml:"tensorboard"`                         // write tensorboard/ event files
	JSONL       bool   `toml:"jsonl"`                               // write events.jsonl
	Timeline    bool   `toml:"timeline"`                            // write timeline.json, what every rank did when, of the first and last 50 steps
	Prometheus  string `toml:"prometheus" pattern:"^(.*:[0-9]+)?$"` // address to serve metrics on; empty: off
}

// Default writes both kinds of files and serves nothing.
func Default() Config { return Config{TensorBoard: true, JSONL: true} }

// Problems lists the mistakes in the table.
func (c Config) Problems() usererr.List {
	var l usererr.List
	if c.Prometheus == "" {
		return l
	}
	_, port, err := net.SplitHostPort(c.Prometheus)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		l.Addf("prometheus", `write "127.0.0.1:9100"`, "%q is not a host:port address", c.Prometheus)
	}
	return l
}
