package doctor

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// concurrent is how many plugins are started concurrently.
const concurrent = 4

// Plugin names a built-in plugin.
type Plugin struct{ Kind, Name, Version string }

// Probe starts the process of a plugin, shakes hands with it and ends it.
type Probe func(ctx context.Context, p Plugin) error

// pluginChecks probe every plugin.
func pluginChecks(ctx context.Context, list []Plugin, probe Probe) []Check {
	checks := make([]Check, len(list))
	var all errgroup.Group
	all.SetLimit(concurrent)
	for i, p := range list {
		all.Go(func() error {
			checks[i] = probed(ctx, p, probe)
			return nil
		})
	}
	_ = all.Wait() // no member returns an error
	return checks
}

func probed(ctx context.Context, p Plugin, probe Probe) Check {
	c := Check{Area: "plugins", Name: p.Kind + " " + p.Name}
	began := time.Now()
	if err := probe(ctx, p); err != nil {
		c.Verdict, c.Found = broken, err.Error()
		c.Fix = "check that this file may be executed (a built-in plugin is this executable started again) and that the temporary directory allows sockets"
		return c
	}
	c.Verdict, c.Found = fine, fmt.Sprintf("%s, handshake in %d ms", p.Version, time.Since(began).Milliseconds())
	return c
}
