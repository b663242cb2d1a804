package main

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/trainctl/trainctl/bench/internal/pairs"
)

// steady compares a step of two ranks with and without launch.elastic.
func (b *measuring) steady(ctx context.Context, r *report) (err error) {
	r.Steady, err = pairs.Compare(b.w, b.pairs, "a step without and with launch.elastic, ms", func(elastic bool) (float64, error) {
		all, err := b.runs(convnet(fmt.Sprintf("nproc_per_node = 2\nelastic = %v", elastic), b.steps), func(t *trial) error {
			args := t.args()
			return t.start(exec.CommandContext(ctx, args[0], args[1:]...))
		})
		if err != nil {
			return 0, err
		}
		var ms []float64
		for _, s := range all {
			if s.n > settled {
				ms = append(ms, s.ms)
			}
		}
		return pairs.Median(ms), nil
	})
	return err
}
