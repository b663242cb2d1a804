package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/base/keepalive"
	"github.com/trainctl/trainctl/core/sdk"
)

// ErrClosed is the error of every call after Close, and of a call that Close ended.
var ErrClosed = errors.New("the backend is closed")

// State is the life of one instance. Its methods may be called from several
// goroutines.
type State struct {
	Name    string          // of the backend
	Context context.Context // ends with Close
	Failed  error           // why the group is unusable; read and written between Begin and End

	cancel context.CancelFunc
	mu     sync.Mutex // held between Begin and End
	closed atomic.Bool
}

// New returns the state of an instance that has not been opened.
func New(name string) *State {
	s := &State{Name: name}
	s.Context, s.cancel = context.WithCancel(context.Background())
	return s
}

// Begin starts a call, after the one that is running. A nil error requires End.
func (s *State) Begin() error {
	s.mu.Lock()
	if s.Closed() {
		s.mu.Unlock()
		return ErrClosed
	}
	return nil
}

// BeginOpen is Begin for a call that needs an open instance.
func (s *State) BeginOpen(open bool) error {
	err := s.Begin()
	if err != nil || open {
		return err
	}
	s.End()
	return &sdk.Error{Code: sdk.CodeUnavailable, Text: "backend " + s.Name + ": not open"}
}

// BeginCollective is Begin for a collective, which needs a connected group without a
// failure.
func (s *State) BeginCollective(connected func() bool) error {
	err := s.Begin()
	if err != nil {
		return err
	}
	switch {
	case s.Failed != nil:
		err = fmt.Errorf("backend %s: an earlier collective of the group failed: %w", s.Name, s.Failed)
	case !connected():
		err = fmt.Errorf("backend %s: Do was called before Connect", s.Name)
	default:
		return nil
	}
	s.End()
	return err
}

// End ends a call.
func (s *State) End() { s.mu.Unlock() }

// Closed reports whether Close was called.
func (s *State) Closed() bool { return s.closed.Load() }

// Close ends the running call and refuses all later ones. The first Close returns
// true, when no call is running any more, and requires End.
func (s *State) Close() (first bool) {
	if s.closed.Swap(true) {
		return false
	}
	s.cancel()
	s.mu.Lock()
	return true
}

// CheckGroup returns an error if the rank is not one of the group.
func (s *State) CheckGroup(g sdk.Group) error {
	if g.WorldSize < 1 || g.Rank < 0 || g.Rank >= g.WorldSize {
		return fmt.Errorf("backend %s: rank %d does not exist in a world of %d", s.Name, g.Rank, g.WorldSize)
	}
	return nil
}

// Log returns the log of a rank's instance. Without l it is slog.Default.
func (s *State) Log(l *slog.Logger, rank int) *slog.Logger {
	if l == nil {
		l = slog.Default()
	}
	return l.With("backend", s.Name, "rank", rank)
}

// ListenTCP listens on a port of the range. bulk says that the connections carry
// buckets, see [keepalive.Listener].
func ListenTCP(ctx context.Context, bulk keepalive.Bulk, host string, ports hostnet.Ports) (net.Listener, error) {
	l, err := hostnet.Listen(ctx, keepalive.Listener(bulk), host, ports)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w; fix: set a wider launch.port_range, or backend.options.port_range, with a port for each rank", err)
	}
	return l, err
}
