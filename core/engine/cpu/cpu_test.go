package cpu

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func TestProgramsTakeTurns(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("two programs ran in one arena at a time")
		}
	}()
	d := New()
	a := &executor{jobs: []bind.Job{func(*plan.Call) {}}, mem: &bind.Memory{Arena: d.room(128)}}
	b := &executor{jobs: a.jobs, mem: &bind.Memory{Arena: d.room(64)}}
	a.Step(0, nil)
	b.Step(0, nil)
}
