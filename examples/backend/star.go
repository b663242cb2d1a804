package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Star sends every buffer to rank 0, which computes the result and sends it
// back. This is the simplest backend that works; it gets slower with every rank.
type Star struct {
	group    sdk.Group
	listener net.Listener // rank 0's
	conns    []net.Conn   // rank 0: by rank; others: only conns[0]
	broken   error        // the first error: no round succeeds after it
}

// Info publishes what the core may call. Nothing else has to work.
func (s *Star) Info() sdk.Info {
	return sdk.Info{
		Kind: sdk.KindBackend, Name: "star", Version: "0.1.0", Summary: "an example: everything through rank 0",
		DTypes:      []tensor.DType{tensor.F32, tensor.F64, tensor.U8, tensor.I32, tensor.I64},
		Devices:     []string{"cpu"},
		Ops:         []sdk.Op{sdk.OpAllReduce, sdk.OpBroadcast, sdk.OpAllGather, sdk.OpReduceScatter, sdk.OpBarrier},
		Determinism: "bitwise",
	}
}

// Open keeps the group.
func (s *Star) Open(_ context.Context, group sdk.Group, _ sdk.Options) error {
	s.group, s.conns = group, make([]net.Conn, group.WorldSize)
	return nil
}

// Attach does nothing: the bytes are sent over sockets.
func (s *Star) Attach(context.Context, *sdk.Arena) error { return nil }

// Listen opens a port on rank 0, at the master address. The core passes the endpoint
// to the other ranks.
func (s *Star) Listen(ctx context.Context) (endpoint []byte, err error) {
	if s.group.Rank != 0 {
		return []byte("-"), nil
	}
	var lc net.ListenConfig
	if s.listener, err = lc.Listen(ctx, "tcp", net.JoinHostPort(s.group.MasterAddr, "0")); err != nil {
		return nil, err
	}
	return []byte(s.listener.Addr().String()), nil
}

// Connect connects every rank to rank 0.
func (s *Star) Connect(ctx context.Context, endpoints [][]byte) error {
	if s.group.Rank == 0 {
		defer s.listener.Close()
		defer context.AfterFunc(ctx, func() { s.listener.Close() })()
		for missing := s.group.WorldSize - 1; missing > 0; {
			conn, err := s.listener.Accept()
			if err != nil {
				return fmt.Errorf("star: %d ranks did not connect: %w", missing, err)
			}
			if s.admit(conn) {
				missing--
			}
		}
		return nil
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", string(endpoints[0]))
	if err != nil {
		return fmt.Errorf("star: rank 0: %w", err)
	}
	s.conns[0] = conn
	_, err = conn.Write(s.credential(s.group.Rank))
	return err
}

// admit keeps a connection that sends a rank's credential. Others, and a second
// connection of the same rank, are closed.
func (s *Star) admit(conn net.Conn) bool {
	card := make([]byte, len(s.credential(0)))
	conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(conn, card); err == nil {
		rank := int(binary.LittleEndian.Uint32(card))
		if rank > 0 && rank < s.group.WorldSize && s.conns[rank] == nil && hmac.Equal(card, s.credential(rank)) {
			s.conns[rank] = conn
			return true
		}
	}
	conn.Close()
	return false
}

// credential is the rank and a proof that it knows the job's secret.
func (s *Star) credential(rank int) []byte {
	head := binary.LittleEndian.AppendUint32(nil, uint32(rank))
	m := hmac.New(sha256.New, s.group.Secret)
	fmt.Fprintf(m, "star %s %d %d %d", s.group.JobID, s.group.Generation, s.group.Epoch, rank)
	return m.Sum(head)
}

// Do runs one collective. After an error, all later calls return it immediately: the other
// ranks may never call again, so waiting for them would be pointless.
func (s *Star) Do(ctx context.Context, c *sdk.Collective) error {
	if s.broken == nil {
		s.broken = s.do(ctx, c)
	}
	return s.broken
}

// do sends the calls to rank 0, then, if they agree, the buffers, and receives the
// results when rank 0 has all buffers. After each of the first two steps, rank 0 sends a verdict.
func (s *Star) do(ctx context.Context, c *sdk.Collective) error {
	s.limit(ctx)
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) { // the connections have the deadline
			s.interrupt()
		}
	})()
	if s.group.Rank == 0 {
		return s.serve(ctx, c)
	}
	err := s.round(c, s.conns[0])
	if errors.Is(ctx.Err(), context.Canceled) {
		s.conns[0].Close()
		return fmt.Errorf("star: %v: %w", c, ctx.Err())
	}
	return err
}

// limit sets the connections' deadline, before anything can shorten it.
func (s *Star) limit(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if ok && s.group.Rank != 0 { // rank 0 knows which ranks are missing and reports them at its deadline
		deadline = deadline.Add(time.Second)
	}
	for _, conn := range s.conns {
		if conn != nil {
			conn.SetDeadline(deadline)
		}
	}
}

// interrupt ends all reads.
func (s *Star) interrupt() {
	for _, conn := range s.conns {
		if conn != nil {
			conn.SetReadDeadline(time.Now())
		}
	}
}

// round is a collective on the other ranks.
func (s *Star) round(c *sdk.Collective, conn net.Conn) error {
	if err := send(conn, c.String()); err != nil {
		return failure(c, 0, err)
	}
	if err := s.verdict(c, conn); err != nil {
		return err
	}
	if _, err := conn.Write(c.Buf); err != nil {
		return failure(c, 0, err)
	}
	if err := s.verdict(c, conn); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, c.Buf)
	return failure(c, 0, err)
}

// verdict receives rank 0's verdict and returns its error.
func (s *Star) verdict(c *sdk.Collective, conn net.Conn) error {
	var v verdict
	if err := receive(conn, &v); err != nil {
		return failure(c, 0, err)
	}
	return v.error(c, s.group.Rank)
}

// serve is a collective on rank 0.
func (s *Star) serve(ctx context.Context, c *sdk.Collective) error {
	calls := make([]string, len(s.conns))
	calls[0] = c.String()
	errs := s.each(func(r int, conn net.Conn) error {
		return receive(conn, &calls[r])
	})
	if err := s.announce(ctx, c, judge(calls, errs)); err != nil {
		return err
	}
	bufs := make([][]byte, len(s.conns))
	bufs[0] = c.Buf
	errs = s.each(func(r int, conn net.Conn) error {
		bufs[r] = make([]byte, len(c.Buf))
		_, err := io.ReadFull(conn, bufs[r])
		return err
	})
	if err := s.announce(ctx, c, judge(calls, errs)); err != nil {
		return err
	}
	if err := compute(c, bufs); err != nil {
		return errors.Join(err, s.Close()) // the others wait for results
	}
	errs = s.each(func(r int, conn net.Conn) error {
		_, err := conn.Write(bufs[r])
		return err
	})
	if v := judge(calls, errs); v.Kind != agreed {
		return s.announce(ctx, c, v) // ranks that have their results receive this in their next call
	}
	return nil
}

// announce sends a verdict to all ranks and returns its error for this one.
func (s *Star) announce(ctx context.Context, c *sdk.Collective, v verdict) error {
	canceled := errors.Is(ctx.Err(), context.Canceled)
	if canceled {
		v = verdict{Kind: gone, Ranks: []int{0}, First: "its call was canceled"}
	}
	s.each(func(_ int, conn net.Conn) error {
		if v.Kind != agreed {
			conn.SetWriteDeadline(time.Now().Add(time.Second))
		}
		return send(conn, v)
	})
	if canceled {
		return fmt.Errorf("star: %v: %w", c, ctx.Err())
	}
	return v.error(c, 0)
}

// each runs f for all other ranks at the same time and returns the errors by rank.
func (s *Star) each(f func(rank int, conn net.Conn) error) []error {
	errs := make([]error, len(s.conns))
	var wg sync.WaitGroup
	for r := 1; r < len(s.conns); r++ {
		wg.Go(func() { errs[r] = f(r, s.conns[r]) })
	}
	wg.Wait()
	return errs
}

// failure returns the error of a failed connection with a rank.
func failure(c *sdk.Collective, rank int, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &sdk.StallError{Seq: c.Seq, Op: c.Op, Bucket: c.Bucket, Missing: []int{rank}}
	}
	return &sdk.PeerError{Peer: rank, Seq: c.Seq, Cause: err.Error()}
}

// Close ends the instance in any state.
func (s *Star) Close() error {
	if s.listener != nil {
		s.listener.Close()
	}
	for _, conn := range s.conns {
		if conn != nil {
			conn.Close()
		}
	}
	return nil
}

var _ sdk.Backend = (*Star)(nil)
