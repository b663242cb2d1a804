package tcp

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/instance"
	"github.com/trainctl/trainctl/plugins/internal/reduce"
)

// Backend is one rank's end of a process group. It implements [sdk.Backend].
// Methods are called from one goroutine, except Close, which may be called at any
// time and ends the running call.
type Backend struct {
	// Log gets a line for every refused connection. Nil means slog.Default.
	Log *slog.Logger

	hostOf        func(rank int) string // of tests: names of hosts that are one
	alwaysPartial bool                  // of tests: see partial

	life *instance.State

	group    sdk.Group
	set      settings
	arenas   []*sdk.Arena
	listener *listener    // what Listen opened
	conns    [][]net.Conn // by rank and stream, while connecting
	links    []*link      // in order of rank, starting with the next higher one
	poller   *poller
	looked   time.Time // last check for unresponsive hosts
	topology topology
	door     *joining // nil before Connect
	local    *local   // nil unless there are ranks to share memory with

	cost       Cost
	op         op // the running call
	algorithms algorithms
	scratch    []byte // see room
	stride     int
	depth      int
	srcs       [][]byte // by rank or host
	bounds     []int    // see cut
	pair       [2][]byte
	sent       traffic
}

// traffic counts bytes written to sockets.
type traffic struct{ payload, headers atomic.Int64 }

// New returns a backend that has not been opened.
func New() *Backend {
	return &Backend{life: instance.New("tcp"), cost: defaultCost}
}

// Info describes the plugin.
func (b *Backend) Info() sdk.Info {
	return sdk.Info{
		Kind:        sdk.KindBackend,
		Name:        "tcp",
		Version:     "1.0.0",
		Summary:     "collectives over TCP, and in shared memory between ranks of one host",
		Options:     options(),
		DTypes:      reduce.DTypes(),
		Devices:     []string{"cpu"},
		Ops:         sdk.Ops(),
		Determinism: "bitwise",
	}
}

// Open takes the group and the options.
func (b *Backend) Open(_ context.Context, group sdk.Group, o sdk.Options) error {
	if err := b.life.Begin(); err != nil {
		return err
	}
	defer b.life.End()
	set, err := readSettings(o)
	if err != nil {
		return err
	}
	if err := b.life.CheckGroup(group); err != nil {
		return err
	}
	b.group, b.set = group, set
	b.srcs = make([][]byte, group.WorldSize)
	return nil
}

// Attach adds an arena. It must be called before Listen, because local peers get the
// arenas' descriptors while connecting.
func (b *Backend) Attach(_ context.Context, arena *sdk.Arena) error {
	if err := b.life.Begin(); err != nil {
		return err
	}
	defer b.life.End()
	switch {
	case b.listener != nil:
		return fmt.Errorf("backend tcp: arena %q was attached after Listen; attach it before", arena.Name)
	case len(b.arenas) >= maxArenas:
		return fmt.Errorf("backend tcp: more than %d arenas", maxArenas)
	}
	b.arenas = append(b.arenas, arena)
	return nil
}

// Close ends the instance in any state and frees sockets and memory.
func (b *Backend) Close() error {
	if !b.life.Close() {
		return nil
	}
	defer b.life.End()
	if b.life.Failed != nil {
		b.drainPeers()
	}
	if b.door != nil {
		b.door.close()
	}
	for _, l := range b.links {
		l.close()
	}
	if b.listener != nil {
		b.listener.close()
	}
	if b.local != nil {
		b.local.close()
	}
	return nil
}

func (b *Backend) log() *slog.Logger { return b.life.Log(b.Log, b.group.Rank) }

var _ sdk.Backend = (*Backend)(nil)
