//go:build !linux

package tcp

import (
	"context"
	"net"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk"
)

// Without futexes and abstract sockets local ranks talk over loopback.

const maxArenas = 64

type local struct{}

type chain struct{ noPayload }

func listenLocal() (net.Listener, string, error) { return nil, "", shm.ErrUnsupported }

func (b *Backend) shareMemory(context.Context) (*local, error) { return nil, shm.ErrUnsupported }

func (b *Backend) runLocal(*sdk.Collective) error { return shm.ErrUnsupported }

func (b *Backend) runHosts(*sdk.Collective) error { return shm.ErrUnsupported }

func (l *local) maps(*sdk.Collective) bool { return false }

func (l *local) wake() {}

func (l *local) close() {}
