package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"strconv"

	"github.com/trainctl/trainctl/core/sdk"
)

// Curve writes the loss of every step to a CSV file.
type Curve struct {
	file *os.File
	csv  *csv.Writer
}

// Info publishes name and options of the plugin.
func (c *Curve) Info() sdk.Info {
	return sdk.Info{
		Kind: sdk.KindObserver, Name: "curve", Version: "0.1.0", Summary: "an example: the loss of every step as a CSV file",
		Options: []sdk.Option{{Name: "path", Type: sdk.String, Default: "./loss.csv", Doc: "File to write; a new run replaces it."}},
	}
}

// Open creates the file. A process that replaces another one appends to what that has written.
func (c *Curve) Open(_ context.Context, req sdk.ObserverRequest) (resume string, err error) {
	flags := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if req.Resume != "" {
		flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	if c.file, err = os.OpenFile(req.Options.String("path"), flags, 0o644); err != nil {
		return "", fmt.Errorf("option path: %w", err)
	}
	c.csv = csv.NewWriter(c.file)
	if req.Resume == "" {
		err = c.csv.Write([]string{"step", "loss"})
	}
	return "appending", err
}

// step has the members of the event "step" that are written.
type step struct {
	Step int      `json:"step"`
	Loss *float64 `json:"loss_mean"` // nil: not finite
}

// Observe writes the steps of a batch.
func (c *Curve) Observe(_ context.Context, e *sdk.EventBatch) error {
	for _, r := range e.Records {
		if r.Kind != "step" {
			continue
		}
		var s step
		if err := r.Decode(&s); err != nil {
			return err
		}
		loss := "nan"
		if s.Loss != nil {
			loss = strconv.FormatFloat(*s.Loss, 'g', -1, 64)
		}
		if err := c.csv.Write([]string{strconv.Itoa(s.Step), loss}); err != nil {
			return err
		}
	}
	c.csv.Flush() // a batch that was taken is not delivered again
	return c.csv.Error()
}

// Close closes the file. It may be called in any state.
func (c *Curve) Close() error {
	if c.file == nil {
		return nil
	}
	c.csv.Flush()
	err := c.file.Close()
	c.file = nil
	return err
}
