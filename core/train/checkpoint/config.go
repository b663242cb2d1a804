package checkpoint

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// Config is the table [checkpoint].
type Config struct {
	Every    string `toml:"every" pattern:"^( *0*[1-9][0-9]* +(epoch|step)s? *|never)$"` // "1 epoch", "500 steps" or "never"; the end of a run always saves unless never
	Keep     int    `toml:"keep"`                                                        // newest checkpoints to keep; 0: all
	KeepBest string `toml:"keep_best" words:",eval.accuracy,eval.loss,train.loss"`       // metric whose best checkpoint is kept as well: "eval.accuracy", "eval.loss", "train.loss"; empty: none
	Prefix   string `toml:"prefix" words:",module."`                                     // put before every key: "" or "module."
	Async    bool   `toml:"async"`                                                       // write while training goes on, from a copy
}

// Default saves every epoch while training continues, and keeps three.
func Default() Config { return Config{Every: "1 epoch", Keep: 3, Async: true} }

// Interval is a parsed Config.Every; one field is set, none for "never".
type Interval struct{ Epochs, Steps int }

// Never reports whether nothing is to be saved at all.
func (i Interval) Never() bool { return i == Interval{} }

// ParseInterval reads "1 epoch", "2 epochs", "500 steps" or "never".
func ParseInterval(s string) (Interval, error) {
	if s == "never" {
		return Interval{}, nil
	}
	count, unit, _ := strings.Cut(strings.TrimSpace(s), " ")
	n, err := strconv.Atoi(count)
	if err == nil && n > 0 {
		switch strings.TrimSuffix(strings.TrimSpace(unit), "s") {
		case "epoch":
			return Interval{Epochs: n}, nil
		case "step":
			return Interval{Steps: n}, nil
		}
	}
	return Interval{}, fmt.Errorf("%q is not an interval", s)
}

// Problems checks the table by itself.
func (c Config) Problems() usererr.List {
	var l usererr.List
	if _, err := ParseInterval(c.Every); err != nil {
		l.Addf("every", `write "1 epoch", "500 steps" or "never"`, "%v", err)
	}
	if c.Keep < 0 {
		l.Addf("keep", "0 keeps all", "%d is negative", c.Keep)
	}
	switch c.KeepBest {
	case "", "eval.accuracy", "eval.loss", "train.loss":
	default:
		l.Addf("keep_best", `use "eval.accuracy", "eval.loss" or "train.loss"`, "unknown metric %q", c.KeepBest)
	}
	if c.Prefix != "" && c.Prefix != "module." {
		l.Addf("prefix", `use "" or "module."`, "unknown prefix %q", c.Prefix)
	}
	return l
}

// lowerIsBetter reports whether lower values of the KeepBest metric are better.
func (c Config) lowerIsBetter() bool { return strings.HasSuffix(c.KeepBest, "loss") }
