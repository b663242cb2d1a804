package trainctl

import (
	"fmt"
	"slices"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/config"
)

// Tables are the tables of a configuration file. Defaults returns those of an empty file.
type Tables = config.File

// Defaults returns the tables of an empty file. Set at least a model, a data set and
// Train.PerRankBatch before training.
func Defaults() Tables { return config.Defaults() }

// Config is what to train. Its zero value is an empty file, which lacks a data set and a model.
type Config struct {
	path   string // of a file; "": none
	text   string // of TOML
	tables *Tables
	set    []string
}

// File is the configuration in a TOML file. Relative paths in it start at the working directory.
func File(path string) Config { return Config{path: path} }

// TOML is the configuration in TOML text.
func TOML(text string) Config { return Config{text: text} }

// Struct is the configuration in Go values. The tables are copied.
func Struct(t Tables) Config { return Config{tables: &t} }

// With returns the configuration with keys set to other values, each "KEY=VALUE" as the command's
// --set takes it: "train.epochs=3", "optimizer.name=adamw", "dataset.options={train_samples = 100}".
// The last value of a key wins.
func (c Config) With(set ...string) Config {
	c.set = append(slices.Clip(c.set), set...)
	return c
}

// load reads and checks the configuration. What options set comes before what With sets.
func (c Config) load(set []string, check config.CheckPlugin) (*config.Config, error) {
	o := config.LoadOptions{Set: append(slices.Clip(set), c.set...), Check: check}
	var loaded *config.Config
	var err error
	switch {
	case c.path != "":
		loaded, err = config.Load(afero.NewOsFs(), c.path, o)
	case c.tables != nil:
		loaded, err = config.Parse("tables", string((&config.Config{File: *c.tables}).Resolved()), o)
	default:
		loaded, err = config.Parse("text", c.text, o)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return loaded, nil
}
