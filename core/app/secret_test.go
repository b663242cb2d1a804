package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/job/secret"
	"github.com/trainctl/trainctl/core/report/event"
)

// warnings keeps the warnings that it gets.
type warnings []*event.Warning

func (w *warnings) Emit(r event.Record) {
	if e, is := r.Event.(*event.Warning); is {
		*w = append(*w, e)
	}
}

func (w *warnings) Close() error { return nil }

// A secret given in the environment is reported with the place where it can still be read.
func TestAnExposedSecretIsTold(t *testing.T) {
	var told warnings
	bus := event.NewBus(0, &told)
	warnExposed(bus, secret.Given{})
	warnExposed(bus, secret.Given{Source: secret.Env, Exposed: errors.New("open /proc/self/mem: permission denied")})
	if err := bus.Close(); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 {
		t.Fatalf("told %d times", len(told))
	}
	for _, want := range []string{secret.Env, "/proc", "permission denied", "fix: use launch.secret_file"} {
		if !strings.Contains(told[0].Message, want) {
			t.Errorf("%q is not in %q", want, told[0].Message)
		}
	}
}
