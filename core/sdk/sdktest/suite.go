package sdktest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// suiteCheck is one test of a suite. It returns what is wrong with the plugin, so that the
// suite can be tested itself.
type suiteCheck[S any] struct {
	name string
	run  func(context.Context, S) error
}

// suite is the state of one check.
type suite interface{ showLogs(testing.TB) }

// checkTimeout is the default limit of a check. Calls have limits of their own, which find those that hang.
const checkTimeout = 3 * time.Minute

// runChecks runs each check on a new suite, for at most limit (0 = checkTimeout).
func runChecks[S suite](t *testing.T, limit time.Duration, checks []suiteCheck[S], newSuite func(testing.TB) S) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			limit := orDefault(limit, checkTimeout)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			s := newSuite(t)
			t.Cleanup(func() { s.showLogs(t) }) // after the processes have ended, whose last lines may be under way
			err := c.run(ctx, s)
			if err != nil && ctx.Err() != nil {
				err = fmt.Errorf("the check had not ended after %v, which is the limit of a check; a busy machine may be the reason: %w", limit, err)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// inProcesses returns a function that starts a process of the plugin with one of the
// host's Start methods, keeps the end of its log, and makes an instance of it.
func inProcesses[P, I any](h *host.Host, plugin string, start func(*host.Host, context.Context, string) (P, error), instance func(P, *logTail) I) func(testing.TB) I {
	return func(t testing.TB) I {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
		defer cancel()
		tail := &logTail{}
		p, err := start(tail.host(h), ctx, plugin)
		if err != nil {
			t.Fatal(err)
		}
		return instance(p, tail)
	}
}

// closeProcess ends a plugin's process.
func closeProcess(p interface{ Close(context.Context) error }) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	return p.Close(ctx)
}

// constantInfo checks Info, which users see in lists and messages.
func constantInfo(p interface {
	Info() sdk.Info
	Close() error
}, kind sdk.Kind) error {
	defer p.Close()
	info := p.Info()
	all := []error{checkedInfo(info, kind)}
	if diff := difference(info, p.Info()); diff != "" {
		all = append(all, fmt.Errorf("Info is not constant:\n%s", diff))
	}
	return errors.Join(all...)
}

// difference shows two values that should be equal; "" if they are.
func difference(a, b any) string {
	if reflect.DeepEqual(a, b) {
		return ""
	}
	return fmt.Sprintf("%+v\n%+v", a, b)
}

// closesTwice checks that Close may be called again.
func closesTwice(p interface{ Close() error }) error {
	for _, which := range []string{"first", "second"} {
		if err := p.Close(); err != nil {
			return fmt.Errorf("the %s Close: %w", which, err)
		}
	}
	return nil
}
