package tcp

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// If a plugin process is killed, the others that wait for it name it immediately, not at
// their deadline, with sockets and with shared memory.
func TestKilledPeer(t *testing.T) {
	for name, shared := range map[string]bool{"shared": true, "sockets": false} {
		t.Run(name, func(t *testing.T) {
			const world, victim = 3, 1
			backends := processes(t, world, sdk.Options{"shm": shared})
			waiting := make(chan error, world)
			for r, b := range backends {
				if r == victim {
					continue
				}
				ticket, err := b.Submit(&sdk.Collective{Seq: 1, Op: sdk.OpAllReduce, DType: tensor.F32, Count: 4, Buf: make([]byte, 16)})
				if err != nil {
					t.Fatal(err)
				}
				go func() { waiting <- b.Wait(ticket) }()
			}
			if err := syscall.Kill(backends[victim].PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			for range world - 1 {
				var dead *sdk.PeerError
				if err := <-waiting; !errors.As(err, &dead) || dead.Peer != victim {
					t.Errorf("%v does not name rank %d", err, victim)
				}
			}
		})
	}
}

// processes starts a group of plugin processes without arenas.
func processes(t *testing.T, world int, o sdk.Options) []*host.Backend {
	t.Helper()
	h := host.New(host.Options{Builtins: builtins, SetEnv: []string{pb.EnvDataPlane + "=inline"}})
	all, endpoints := make([]*host.Backend, world), make([][]byte, world)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for r := range all {
		b, err := h.StartBackend(ctx, "tcp")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close(context.Background()) })
		if err := b.Open(ctx, testGroup(r, world), o); err != nil {
			t.Fatal(err)
		}
		if endpoints[r], err = b.Listen(ctx); err != nil {
			t.Fatal(err)
		}
		all[r] = b
	}
	if err := together(world, func(r int) error { return all[r].Connect(ctx, endpoints) }); err != nil {
		t.Fatal(err)
	}
	return all
}
