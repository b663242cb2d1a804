package sdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/base/tempdir"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

const (
	heartbeat   = 100 * time.Millisecond
	closeBudget = 2 * time.Second // to leave when the host is gone
)

// server is the plugin's side of the protocol for one instance.
type server struct {
	pb.UnimplementedPluginServer
	info      Info
	backend   Backend   // one of the five
	dataset   Dataset   //
	precision Precision //
	observer  Observer  //
	layer     Layer     //
	link      *hostLink // nil: inline data plane only
	log       *slog.Logger

	serving atomic.Bool // go-plugin listens

	calls sync.Mutex // the instance gets one call at a time
	ctx   context.Context
	abort context.CancelFunc // ends the current operation and all later ones

	mu       sync.Mutex
	arenas   map[uint32]*Arena
	failures map[uint64]*pb.Error // by ticket, the last few
	ring     *shm.Worker

	closing sync.Once
	closed  chan struct{}
	endErr  error

	end   func()         // when the host is gone
	over  chan struct{}  // closed when the goroutines of the ring are to end
	loops sync.WaitGroup // these goroutines
	mine  []*shm.Arena   // everything that was mapped

	opened atomic.Pointer[opened]
	broken error      // a backend's first failure; under calls
	spare  *opContext // for the next operation; under calls

	running Collective // of the ring
	filling Batch      // of the ring

	layers map[int64]*servedLayer // that were described; under mu
}

// opened is what the instance was opened with.
type opened struct {
	timeout  time.Duration // of one operation; 0 = none
	world    int
	channels int // 0 is 1
	spec     DatasetSpec
}

// deadline is the context of a call outside the data plane that may take as long as an operation.
func (o *opened) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, o.timeout)
}

func newServer(p Plugin, kind Kind, link *hostLink, log *slog.Logger) (*server, error) {
	if kinds := p.Kinds(); kind == "" && len(kinds) == 1 {
		kind = kinds[0]
	}
	s := &server{link: link, log: log, arenas: map[uint32]*Arena{}, failures: map[uint64]*pb.Error{}, closed: make(chan struct{}), over: make(chan struct{})}
	s.end = s.leave
	switch {
	case kind == KindBackend && p.Backend != nil:
		s.backend = p.Backend()
	case kind == KindDataset && p.Dataset != nil:
		s.dataset = p.Dataset()
	case kind == KindPrecision && p.Precision != nil:
		s.precision = p.Precision()
	case kind == KindObserver && p.Observer != nil:
		s.observer = p.Observer()
	case kind == KindLayer && p.Layer != nil:
		s.layer = p.Layer()
	default:
		return nil, fmt.Errorf("this plugin is not %s; it serves %v", kind.Phrase(), p.Kinds())
	}
	s.info = s.instance().Info()
	s.info.Kind = kind
	s.ctx, s.abort = context.WithCancel(context.Background())
	return s, nil
}

// guard calls the plugin's code. It turns a panic into an error with the top of the
// stack, and prints the whole stack to standard error.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			stack := string(debug.Stack())
			fmt.Fprintf(os.Stderr, "panic: %v\n\n%s", r, stack)
			err = &Error{Code: CodePanic, Text: fmt.Sprintf("panic: %v%s", r, origin(stack))}
		}
	}()
	return f()
}

// origin finds the first frame below the panic in a stack dump.
func origin(stack string) string {
	_, below, ok := strings.Cut(stack, "\npanic(")
	if !ok {
		return ""
	}
	lines := strings.SplitN(below, "\n", 5)
	if len(lines) < 4 {
		return ""
	}
	place, _, _ := strings.Cut(strings.TrimSpace(lines[3]), " +0x")
	return " at " + place
}

// call runs one method of the instance.
func (s *server) call(f func() error) error {
	s.calls.Lock()
	defer s.calls.Unlock()
	return guard(f)
}

// Info implements pb.PluginServer.
func (s *server) Info(context.Context, *pb.InfoRequest) (*pb.InfoReply, error) {
	out, err := s.info.toProto()
	if err != nil {
		return nil, err
	}
	if s.link != nil && os.Getenv(pb.EnvDataPlane) != pb.PlaneInline {
		out.DataPlanes = append(out.DataPlanes, pb.PlaneShm)
	}
	out.DataPlanes = append(out.DataPlanes, pb.PlaneInline)
	return out, nil
}

// Start implements pb.PluginServer: it maps the control arena and starts to work.
func (s *server) Start(ctx context.Context, r *pb.StartRequest) (*pb.StartReply, error) {
	if r.DataPlane == pb.PlaneInline {
		return &pb.StartReply{}, nil
	}
	if r.DataPlane != pb.PlaneShm || s.link == nil {
		return nil, protocolError("no data plane %q here", r.DataPlane)
	}
	arena, err := s.receive(ctx, 0, r.ControlSize)
	if err != nil {
		return nil, err
	}
	ring, err := shm.NewWorker(arena.Bytes(), shm.DefaultBell())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ring != nil {
		return nil, protocolError("started twice")
	}
	s.ring = ring
	ring.Beat()
	s.loops.Go(func() { s.beat(ring) })
	s.loops.Go(func() { s.work(ring) })
	return &pb.StartReply{}, nil
}

// AttachArena implements pb.PluginServer.
func (s *server) AttachArena(ctx context.Context, r *pb.AttachArenaRequest) (*pb.AttachArenaReply, error) {
	if r.Id == 0 || s.link == nil {
		return nil, protocolError("arena %d cannot be attached", r.Id)
	}
	if r.Device != nil {
		return s.attachDevice(ctx, r)
	}
	mem, err := s.receive(ctx, uint64(r.Id), r.Size)
	if err != nil {
		return nil, err
	}
	return &pb.AttachArenaReply{}, s.attach(ctx, &Arena{ID: r.Id, Name: r.Name, Arena: mem})
}

// attach gives an arena to the instance and lets operations name it.
func (s *server) attach(ctx context.Context, arena *Arena) error {
	s.mu.Lock()
	taken := s.arenas[arena.ID] != nil
	if !taken {
		s.arenas[arena.ID] = arena
	}
	s.mu.Unlock()
	if taken {
		return protocolError("arena %d is attached already", arena.ID)
	}
	if s.layer != nil {
		return s.keepOnly(arena.ID)
	}
	if s.backend == nil {
		return nil
	}
	err := s.call(func() error { return s.backend.Attach(ctx, arena) })
	if err != nil {
		s.mu.Lock()
		delete(s.arenas, arena.ID)
		s.mu.Unlock()
	}
	return err
}

// keepOnly unmaps all arenas but one: the calls of a layer plugin have their tensors in the last one.
func (s *server) keepOnly(id uint32) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, a := range s.arenas {
		if other != id {
			err = errors.Join(err, a.Close())
			delete(s.arenas, other)
		}
	}
	return err
}

// attachDevice is attach of memory on a GPU.
func (s *server) attachDevice(ctx context.Context, r *pb.AttachArenaRequest) (*pb.AttachArenaReply, error) {
	d := r.Device
	m := &DeviceMemory{UUID: d.Uuid, Size: int(min(r.Size, 1<<62)), Kind: HandleKind(d.Kind), Handle: d.Handle, Ready: Events{Handles: d.Ready}}
	if m.Kind == HandlePosixFD { // before anything is refused: the next arena may have the same tag
		f, err := s.link.take(ctx, uint64(r.Id))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		m.File = f
	}
	if err := checkMemory(m); err != nil {
		return nil, err
	}
	if s.backend == nil || !s.info.DeviceArena {
		return nil, protocolError("arena %q is on a GPU, which %s does not support", r.Name, s.info.Name)
	}
	err := s.attach(ctx, &Arena{ID: r.Id, Name: r.Name, Device: m})
	return &pb.AttachArenaReply{Done: m.Done.Handles}, err
}

func (s *server) receive(ctx context.Context, tag, size uint64) (*shm.Arena, error) {
	if size > 1<<46 {
		return nil, protocolError("an arena of %d bytes", size)
	}
	f, err := s.link.take(ctx, tag)
	if err != nil {
		return nil, err
	}
	arena, err := shm.Map(f, int(size))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mine = append(s.mine, arena)
	return arena, nil
}

// Ping implements pb.PluginServer. It never waits for the instance.
func (s *server) Ping(context.Context, *pb.PingRequest) (*pb.PingReply, error) {
	return &pb.PingReply{}, nil
}

// Failure implements pb.PluginServer.
func (s *server) Failure(_ context.Context, r *pb.FailureRequest) (*pb.Error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.failures[r.Ticket]; e != nil {
		return e, nil
	}
	return &pb.Error{Text: "the reason is no longer known"}, nil
}

// Drain implements pb.PluginServer.
func (s *server) Drain(ctx context.Context, _ *pb.DrainRequest) (*pb.DrainReply, error) {
	s.mu.Lock()
	ring := s.ring
	s.mu.Unlock()
	for ring != nil && !ring.Idle() {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return &pb.DrainReply{}, nil
}

// Shutdown implements pb.PluginServer.
func (s *server) Shutdown(ctx context.Context, _ *pb.ShutdownRequest) (*pb.ShutdownReply, error) {
	s.close()
	select {
	case <-s.closed:
		return &pb.ShutdownReply{}, s.endErr
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// close aborts what is running and closes the instance, in the background.
func (s *server) close() {
	s.abort()
	go s.closing.Do(func() {
		defer close(s.closed)
		s.endErr = s.call(s.instance().Close)
	})
}

// instance is what all kinds have in common.
func (s *server) instance() interface {
	Info() Info
	Close() error
} {
	switch {
	case s.backend != nil:
		return s.backend
	case s.dataset != nil:
		return s.dataset
	case s.observer != nil:
		return s.observer
	case s.layer != nil:
		return s.layer
	}
	return s.precision
}

// watchHost ends the process when the host is gone: the host's end of the socket is
// closed, or the process has another parent.
func (s *server) watchHost() {
	if s.link != nil {
		go func() {
			s.link.run()
			s.leave()
		}()
	}
	parent := os.Getppid()
	go func() {
		for range time.Tick(time.Second) {
			if os.Getppid() != parent {
				s.leave()
			}
		}
	}()
}

// leave exits when the host is gone and cannot clean up: it also kills all processes
// that this process started.
func (s *server) leave() {
	s.finish()
	if unix.Getpgrp() == os.Getpid() {
		_ = unix.Kill(0, unix.SIGKILL) // the group is ours
	}
	os.Exit(0)
}

// exit ends the process.
func (s *server) exit() {
	s.finish()
	os.Exit(0)
}

// finish lets the instance close within closeBudget and removes the socket.
func (s *server) finish() {
	s.close()
	select {
	case <-s.closed:
	case <-time.After(closeBudget):
		fmt.Fprintf(os.Stderr, "%s did not close within %v\n", s.info.Name, closeBudget)
	}
	removeSocket()
}

// removeSocket removes what go-plugin left in the directory that the host
// made for this process alone, and the directory.
func removeSocket() {
	dir := os.Getenv(goplugin.EnvUnixSocketDir)
	if dir == "" {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Type() == os.ModeSocket && strings.HasPrefix(e.Name(), "plugin") {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
	tempdir.Leave(dir)
}
