package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// An attempt that the end of the context cuts short does not hide why the others failed.
func TestTheLastWholeAttemptSaysWhy(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	attempts := 0
	err := Config{Endpoints: []string{"a:1"}}.await(ctx, func(ctx context.Context, _ string) error {
		if attempts++; attempts < 3 {
			return errors.New("the address is refused")
		}
		cancel()
		return ctx.Err()
	}, nil)
	if err == nil || !strings.Contains(err.Error(), "the address is refused") || attempts != 3 {
		t.Errorf("after %d attempts: %v", attempts, err)
	}
}
