package trainctl_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/trainctl/trainctl"
	"github.com/trainctl/trainctl/trainctltest"
)

// SIGUSR1 to the program asks for a checkpoint. This run never saves, and warns instead.
func TestSaveSignal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, ended := make(chan trainctl.Event), make(chan struct{})
	go func() {
		defer close(ended)
		cfg := trainctl.TOML(fmt.Sprintf(perceptron, t.TempDir())).With("train.epochs=10000")
		_, _ = trainctl.Run(ctx, cfg, trainctl.Backend(trainctltest.Memory()), trainctl.Events(events)) // it is interrupted
	}()
	asked, warned := false, false
	for e := range events {
		switch e := e.Event.(type) {
		case *trainctl.StepDone:
			if !asked {
				asked = true
				if err := syscall.Kill(syscall.Getpid(), syscall.SIGUSR1); err != nil {
					t.Error(err)
				}
			}
		case *trainctl.Warning:
			if e.Source == "checkpoint" {
				warned = true
				cancel()
			}
		}
	}
	<-ended
	if !warned {
		t.Error("the run was not asked to save")
	}
}
