package sdk

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// hostLink is the socket to the host, descriptor 3 or the one on which a host has attached
// this process: arenas arrive on it, and end of file means that the host is gone.
type hostLink struct {
	conn *net.UnixConn

	mu      sync.Mutex
	files   map[uint64]*os.File
	arrived chan struct{} // closed and replaced with every arrival
}

// openHostLink takes the descriptor that the environment names; nil without one.
func openHostLink() (*hostLink, error) {
	v := os.Getenv(pb.EnvChannel)
	if v == "" {
		return nil, nil
	}
	fd, err := strconv.Atoi(v)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%q is not a descriptor", pb.EnvChannel, v)
	}
	f := os.NewFile(uintptr(fd), "host")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d to the host: %w", fd, err)
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("descriptor %d to the host is not a unix socket", fd)
	}
	return newHostLink(conn), nil
}

func newHostLink(conn *net.UnixConn) *hostLink {
	return &hostLink{conn: conn, files: map[uint64]*os.File{}, arrived: make(chan struct{})}
}

// run collects descriptors until the host is gone.
func (l *hostLink) run() {
	for {
		tag, f, err := shm.RecvFile(l.conn)
		if err != nil {
			return
		}
		l.mu.Lock()
		l.files[tag] = f
		close(l.arrived)
		l.arrived = make(chan struct{})
		l.mu.Unlock()
	}
}

// take waits for the descriptor with a tag. The caller owns it.
func (l *hostLink) take(ctx context.Context, tag uint64) (*os.File, error) {
	for {
		l.mu.Lock()
		f, ok := l.files[tag]
		delete(l.files, tag)
		arrived := l.arrived
		l.mu.Unlock()
		if ok {
			return f, nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return nil, fmt.Errorf("descriptor %d did not arrive: %w", tag, ctx.Err())
		}
	}
}
