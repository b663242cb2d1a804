package host_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// counted counts records by whether they are a plugin's line or the host's word
// about lines that it left out.
type counted struct {
	slog.Handler
	mu             sync.Mutex
	lines, dropped int64
	plugin         string // of the host's word
}

func (c *counted) WithAttrs(attrs []slog.Attr) slog.Handler {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range attrs {
		if a.Key == "plugin" {
			c.plugin = a.Value.String()
		}
	}
	return c
}

func (c *counted) Enabled(context.Context, slog.Level) bool { return true }

func (c *counted) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.HasPrefix(r.Message, "line ") {
		c.lines++
	}
	if r.Level == slog.LevelWarn {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "dropped" {
				c.dropped += a.Value.Int64()
			}
			return true
		})
	}
	return nil
}

// A plugin that floods its standard output works on, its lines are limited, and what
// was left out is counted under its name.
func TestFloodOfAProcess(t *testing.T) {
	log := &counted{Handler: slog.DiscardHandler}
	began := time.Now()
	d := openFake(t, newHost(t, host.Options{Log: slog.New(log)}), "fake", "flood", 0)
	must(t, d.Request(0, sdk.Train, 0, 1, []int64{7}))
	_, _, err := d.Wait(0)
	must(t, err)
	must(t, d.Close(context.Background()))
	most := int64(2000 + 200*(time.Since(began).Seconds()+1))
	if log.lines < 2000 || log.lines > most || log.dropped == 0 || log.lines+log.dropped > floodLines || log.plugin != "fake" {
		t.Errorf("of %d lines %d were logged, at most %d are right; %d were reported as dropped, of plugin %q", floodLines, log.lines, most, log.dropped, log.plugin)
	}
}

// openFake starts a data set that is the fake one, with a slot for a sample.
func openFake(t *testing.T, h *host.Host, plugin, mode string, timeout time.Duration) *host.Dataset {
	t.Helper()
	d, err := h.StartDataset(t.Context(), plugin)
	must(t, err)
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	d.Timeout = timeout
	if _, err := d.Open(t.Context(), sdk.DatasetRequest{Options: sdk.Options{"broken": false, "mode": mode}, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	must(t, d.Prepare(1, 1))
	return d
}
