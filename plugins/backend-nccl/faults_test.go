package nccl

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/fakegpu"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/internal/clib"
	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// ranks is a group of which a test looks at every rank.
type ranks []*Backend

func pairOn(m *fakegpu.Machine) ranks { return ranks{onFake(m, 22706), onFake(m, 22706)} }

// each runs f on all ranks at once.
func (r ranks) each(f func(rank int, b *Backend) error) []error {
	errs := make([]error, len(r))
	var wg sync.WaitGroup
	for i, b := range r {
		wg.Go(func() { errs[i] = f(i, b) })
	}
	wg.Wait()
	return errs
}

// connect brings a group up and returns what Connect said on each rank.
func (r ranks) connect(t *testing.T, o sdk.Options) []error {
	t.Helper()
	t.Cleanup(func() {
		for _, b := range r {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	endpoints := make([][]byte, len(r))
	for i, b := range r {
		g := sdk.Group{JobID: "job", Secret: []byte("secret"), Rank: i, WorldSize: len(r), LocalRank: i, LocalSize: len(r), MasterAddr: "127.0.0.1"}
		if err := b.Open(t.Context(), g, o); err != nil {
			t.Fatal(err)
		}
		var err error
		if endpoints[i], err = b.Listen(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return r.each(func(_ int, b *Backend) error { return b.Connect(t.Context(), endpoints) })
}

func (r ranks) mustConnect(t *testing.T, o sdk.Options) {
	t.Helper()
	if err := errors.Join(r.connect(t, o)...); err != nil {
		t.Fatal(err)
	}
}

// reduce has all ranks sum four ones.
func (r ranks) reduce(ctx context.Context) []error {
	return r.each(func(_ int, b *Backend) error { return b.Do(ctx, ones()) })
}

func ones() *sdk.Collective {
	return &sdk.Collective{Seq: 1, Op: sdk.OpAllReduce, DType: tensor.F32, Count: 4, Bucket: 2, Buf: tensor.Bytes([]float32{1, 1, 1, 1})}
}

func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

func wantText(t *testing.T, errs []error, words ...string) {
	t.Helper()
	for rank, err := range errs {
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("rank %d: %q is not in %v", rank, w, err)
			}
		}
	}
}

// All ranks called, and one's kernel never starts: no rank is missing, and the
// deadline ends it all the same.
func TestACollectiveThatNeverEndsIsAStall(t *testing.T) {
	t.Parallel()
	m := fakegpu.New(2)
	r := pairOn(m)
	r.mustConnect(t, nil)
	m.Absent(1)
	for rank, err := range r.reduce(short(t)) {
		var s *sdk.StallError
		if !errors.As(err, &s) || s.Seq != 1 || s.Bucket != 2 || len(s.Missing) != 0 {
			t.Errorf("rank %d: got %v", rank, err)
		}
		if r[rank].channels[0].comm.handle != 0 {
			t.Errorf("rank %d: the communicator was not aborted", rank)
		}
		if err := r[rank].Do(t.Context(), ones()); err == nil {
			t.Errorf("rank %d: a collective after an error succeeded", rank)
		}
	}
	for _, b := range r {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if left := m.Left(); left != "" {
		t.Errorf("not given back: %s", left)
	}
}

func TestARankThatNeverJoinsEndsConnect(t *testing.T) {
	t.Parallel()
	m := fakegpu.New(2)
	m.Alone(1)
	errs := pairOn(m).connect(t, sdk.Options{"connect_timeout": "1.5s"}) // in which both have to reach the coordinator, on a busy machine too
	wantText(t, errs, "joining the communicator", "1.5s")
}

func TestAnAsynchronousErrorReachesAllRanks(t *testing.T) {
	t.Parallel()
	for _, code := range []driver.NCCLResult{driver.NCCLInvalidUsage, driver.NCCLRemoteError} {
		t.Run(code.Error(), func(t *testing.T) {
			t.Parallel()
			m := fakegpu.New(2)
			r := pairOn(m)
			r.mustConnect(t, nil)
			m.Break(1, code)
			errs := r.reduce(t.Context())
			if !errors.Is(errs[1], code) {
				t.Errorf("rank 1: got %v", errs[1])
			}
			var gone *sdk.PeerError
			if !errors.As(errs[0], &gone) || gone.Peer != 1 || !strings.Contains(gone.Cause, code.Error()) {
				t.Errorf("rank 0: got %v", errs[0])
			}
		})
	}
}

// launching is a backend that says when it has launched.
func launching(m *fakegpu.Machine, launched func()) *Backend {
	b := onFake(m, 22706)
	b.load = func(*dl.Finder, string) (libraries, error) {
		n := m.NCCL(22706)
		inner := n.AllReduce
		n.AllReduce = func(s, r driver.DevicePtr, count uintptr, d driver.NCCLDataType, op driver.NCCLRedOp, c driver.Comm, on driver.Stream) error {
			launched()
			return inner(s, r, count, d, op, c, on)
		}
		return libraries{m.CUDA(), n}, nil
	}
	return b
}

func TestCloseEndsARunningCollective(t *testing.T) {
	t.Parallel()
	m := fakegpu.New(2)
	launched := make(chan struct{})
	r := ranks{launching(m, func() { close(launched) }), onFake(m, 22706)}
	r.mustConnect(t, nil)
	m.Absent(0)
	m.Absent(1)
	go func() { <-launched; r[0].Close() }()
	errs := r.reduce(t.Context())
	if !errors.Is(errs[0], instance.ErrClosed) {
		t.Errorf("rank 0: got %v", errs[0])
	}
	if gone := (*sdk.PeerError)(nil); !errors.As(errs[1], &gone) || gone.Peer != 0 {
		t.Errorf("rank 1: got %v", errs[1])
	}
}

// A library call that does not return costs its thread. Do and Close answer.
func TestACallThatHangsIsLeftBehind(t *testing.T) {
	t.Parallel()
	m := fakegpu.New(1)
	release := make(chan struct{})
	b := launching(m, func() { <-release })
	ranks{b}.mustConnect(t, nil)
	err := b.Do(short(t), ones())
	if !errors.As(err, new(*sdk.StallError)) || !errors.Is(err, clib.ErrStuck) {
		t.Errorf("got %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	close(release)
	<-b.thread.Done()
}

func TestVersionsOfNCCLHaveToAgree(t *testing.T) {
	t.Parallel()
	m := fakegpu.New(2)
	errs := ranks{onFake(m, 22706), onFake(m, 22803)}.connect(t, nil)
	wantText(t, errs, "rank 0 has NCCL 2.27.6", "rank 1 has 2.28.3")
}

func TestOneGPUForTwoRanks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		version int32
		allow   bool
		want    []string
	}{
		{"refused", 23000, false, []string{"ranks 0 and 1 have the same GPU", "allow_shared_device = true"}},
		{"too old", 22706, true, []string{"ranks 0 and 1 share", "2.27.6", `"tcp"`}},
		{"allowed", 23000, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := fakegpu.New(1)
			r := ranks{onFake(m, c.version), onFake(m, c.version)}
			set := map[string]string{}
			for _, b := range r {
				b.setenv = func(name, value string) error { set[name] = value; return nil }
			}
			errs := r.connect(t, sdk.Options{"allow_shared_device": c.allow})
			if wantText(t, errs, c.want...); c.want == nil {
				if err := errors.Join(append(errs, r.reduce(t.Context())...)...); err != nil {
					t.Error(err)
				}
			}
			for _, err := range errs {
				if e := (*sdk.Error)(nil); c.want != nil && (!errors.As(err, &e) || e.Code != sdk.CodeUnavailable) {
					t.Errorf("got %v", err)
				}
			}
			if on := set["NCCL_MULTI_RANK_GPU_ENABLE"] == "1"; on != c.allow {
				t.Errorf("set %v", set)
			}
		})
	}
}

func TestIsolationIsCheckedBeforeLibraries(t *testing.T) {
	for mode, good := range map[string]bool{"auto": true, "isolated": true, "inproc": false /* not in the rank's process */, "other": false} {
		b := onFake(fakegpu.New(1), 22706)
		err := b.Open(t.Context(), sdk.Group{WorldSize: 1}, sdk.Options{"isolation": mode})
		if (err == nil) != good {
			t.Errorf("%s: %v", mode, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAMachineWithoutADeviceIsUnavailable(t *testing.T) {
	b := onFake(fakegpu.New(0), 22706)
	err := b.Open(t.Context(), sdk.Group{WorldSize: 1}, nil)
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.CodeUnavailable || !strings.Contains(e.Text, "NO_DEVICE") {
		t.Errorf("got %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
