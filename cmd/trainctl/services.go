package main

import (
	"context"
	"io"
	"time"

	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/report/forecast"
	"github.com/trainctl/trainctl/core/sdk"
)

// services do the work of the commands. Each service must honour its context.
type services struct {
	// CheckPlugin returns the check of plugin options, and a function that releases it.
	CheckPlugin func() (check config.CheckPlugin, done func())

	// CheckModel finds conflicts between the model and the data set's published shape.
	CheckModel func(context.Context, *config.Config) error

	Run    func(context.Context, app.Options, display) error
	Worker func(context.Context, app.Options, display) error
	Plan   func(ctx context.Context, c *config.Config, openData bool) (*forecast.Report, error)
	Bench  func(context.Context, *config.Config, time.Duration) (*bench.StepReport, error)
	// BenchData opens the data like the ranks of this host and reads it for a while.
	BenchData func(ctx context.Context, c *config.Config, budget time.Duration) (*bench.DataReport, error)
	Eval      func(context.Context, app.Options) (evalResult, error)

	Plugins plugins
}

// stdio holds the three streams of a command.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// display is how run and worker show a run.
type display struct {
	events   string // "" or "json": one event per line on standard output
	progress string // "auto", "plain" or "none"; "auto" only if stderr is a terminal
	stdout   io.Writer
	stderr   io.Writer
}

// evalResult is what eval prints.
type evalResult struct {
	Checkpoint string  `json:"checkpoint"`
	Step       int     `json:"step"`
	Samples    int     `json:"samples"`
	Loss       float64 `json:"loss"`
	Accuracy   float64 `json:"accuracy"`

	// As in event.EvalDone; 0: none.
	Tokens      int     `json:"tokens,omitempty"`
	Perplexity  float64 `json:"perplexity,omitempty"`
	BitsPerByte float64 `json:"bits_per_byte,omitempty"`
}

// plugins are the services of plugins.
type plugins struct {
	List func() []pluginInfo                                              // never nil
	Info func(ctx context.Context, kind, name string) (pluginInfo, error) // kind may be empty

	// Probe starts a plugin's process, shakes hands and ends it. A plugin whose
	// checksum differs from sum is not started; "" accepts any.
	Probe func(ctx context.Context, kind, name, sum string) (pluginInfo, error)

	// Backend returns the backend that "auto" selects.
	Backend func(*config.Config) string
}

// pluginInfo describes a plugin.
type pluginInfo struct {
	Kind    string         `json:"kind"`
	Name    string         `json:"name"`
	Version string         `json:"version"`
	Summary string         `json:"summary"`
	Also    []string       `json:"also,omitempty"`   // other kinds that it serves
	Path    string         `json:"path,omitempty"`   // empty: built in
	Offers  string         `json:"offers,omitempty"` // a backend's operations and types
	Options []pluginOption `json:"options,omitempty"`

	published []sdk.Option
}

// pluginOption is one key of a plugin's table.
type pluginOption struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Default string `json:"default,omitempty"` // as TOML
	Unit    string `json:"unit,omitempty"`
	Limits  string `json:"limits,omitempty"` // "0 to 1", "O0, O1, O2, O3"
	Doc     string `json:"doc"`
}
