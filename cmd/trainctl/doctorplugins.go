package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// starters is how many plugins are started concurrently.
const starters = 4

// pluginChecks start every built-in plugin's process and shake hands with it.
func pluginChecks(ctx context.Context, s *services) []check {
	if s.Plugins.List == nil || s.Plugins.Probe == nil {
		return nil
	}
	list, err := s.Plugins.List()
	if err != nil {
		return []check{{Area: "plugins", Name: "list", Verdict: broken, Found: err.Error()}}
	}
	checks := make([]check, len(list))
	var all errgroup.Group
	all.SetLimit(starters)
	for i, p := range list {
		all.Go(func() error {
			checks[i] = probe(ctx, s, p)
			return nil
		})
	}
	_ = all.Wait() // no member returns an error
	return checks
}

func probe(ctx context.Context, s *services, p pluginInfo) check {
	c := check{Area: "plugins", Name: p.Kind + " " + p.Name}
	began := time.Now()
	if _, err := s.Plugins.Probe(ctx, p.Kind, p.Name, ""); err != nil {
		c.Verdict, c.Found = broken, err.Error()
		c.Fix = "check that this file may be executed (a built-in plugin is this executable started again) and that the temporary directory allows sockets"
		return c
	}
	c.Verdict, c.Found = fine, fmt.Sprintf("%s, handshake in %d ms", p.Version, time.Since(began).Milliseconds())
	return c
}
