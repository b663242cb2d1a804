package main

import (
	"context"
	"fmt"
	"os/exec"
)

// steady compares a step of two ranks with and without launch.elastic.
func (b *measuring) steady(ctx context.Context, r *report) (err error) {
	r.Steady, err = b.compare("a step without and with launch.elastic, ms", func(elastic bool) (float64, error) {
		t, err := b.newTrial(convnet(fmt.Sprintf("nproc_per_node = 2\nelastic = %v", elastic), b.steps))
		if err != nil {
			return 0, err
		}
		args := t.args()
		if err := t.start(exec.CommandContext(ctx, args[0], args[1:]...)); err != nil {
			return 0, err
		}
		if err := t.wait(); err != nil {
			return 0, err
		}
		all, err := t.steps()
		if err != nil {
			return 0, err
		}
		var ms []float64
		for _, s := range all {
			if s.n > settled {
				ms = append(ms, s.ms)
			}
		}
		if len(ms) < b.steps/2 {
			return 0, fmt.Errorf("only %d of %d steps are in the events", len(ms), b.steps)
		}
		return median(ms), nil
	})
	return err
}
