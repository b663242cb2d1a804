package tcp

import (
	"context"
	"errors"
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
)

// lateCancel is a context that is canceled right after it was first asked.
type lateCancel struct {
	context.Context
	asked int
}

func (c *lateCancel) Err() error {
	if c.asked++; c.asked > 1 {
		return context.Canceled
	}
	return nil
}

// A call that is canceled between two looks at its context has not stalled, whichever look sees it.
func TestCanceledCallHasNotStalled(t *testing.T) {
	b := New()
	b.op = op{ctx: &lateCancel{Context: context.Background()}, c: &sdk.Collective{}}
	if err := b.overdue(); err != nil {
		t.Fatalf("canceled during the look: %v, want none yet", err)
	}
	err := b.overdue()
	if !errors.Is(err, context.Canceled) || errors.As(err, new(*sdk.StallError)) {
		t.Fatalf("canceled: %v, want %v", err, context.Canceled)
	}
}
