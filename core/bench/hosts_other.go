//go:build !linux || portable

package bench

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
)

// NewHosts fails: only Linux has network namespaces.
func NewHosts(int) (*Hosts, error) {
	return nil, fmt.Errorf("%w: they need Linux, this is %s", ErrNoHosts, runtime.GOOS)
}

// Command is never called, because there are no hosts.
func (h *Hosts) Command(ctx context.Context, _ int, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, program, args...)
}

// Close does nothing.
func (h *Hosts) Close() error { return nil }
