package rank

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// together calls Regroup on all of them at the same time, each with its place as value, and
// checks which places form the group.
func together(t *testing.T, want string, ms ...*Members) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var g errgroup.Group
	for _, m := range ms {
		g.Go(func() error {
			all, err := m.Regroup(ctx, []byte{byte('0' + m.place)})
			if got := string(slices.Concat(all...)); err == nil && (got != want || m.Size() != len(want) || m.Rank() != strings.IndexByte(want, byte('0'+m.place))) {
				t.Errorf("place %d is rank %d of %d with %q, want %q", m.place, m.Rank(), m.Size(), got, want)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// first forms the first group of a new job.
func first(t *testing.T, o StoreOptions, want string) (s *Server, clients []*Client, ms []*Members) {
	t.Helper()
	o.WorldSize, o.Elastic = len(want), true
	s, addr := serve(t, o)
	clients = dialAll(t, addr, o.WorldSize)
	for r, c := range clients {
		ms = append(ms, NewMembers(c, r))
	}
	together(t, want, ms...)
	return s, clients, ms
}

// Those that are left form the next group, in their order, and those that come are behind
// them.
func TestRegroup(t *testing.T) {
	s, clients, m := first(t, StoreOptions{}, "0123")
	clients[1].conn.Close()
	together(t, "023", m[0], m[2], m[3])

	back := NewMembers(dial(t, s.Addr().String(), DialOptions{Rank: 1, Size: 4}), 1)
	ctx := t.Context()
	var g errgroup.Group
	g.Go(func() error { _, err := back.Regroup(ctx, []byte("1")); return err })
	for called := 0; called == 0; time.Sleep(time.Millisecond) { // it comes while they work
		s.mu.Lock()
		called = len(s.state.group.calls)
		s.mu.Unlock()
	}
	clients[2].conn.Close()
	together(t, "031", m[0], m[3])
	if err := g.Wait(); err != nil || back.Rank() != 2 {
		t.Errorf("the one that came is rank %d, %v", back.Rank(), err)
	}
	for _, m := range []*Members{m[0], m[3], back} {
		g.Go(func() error {
			all, err := m.Gather(ctx, "values", []byte{byte('0' + m.place)})
			if got := string(slices.Concat(all...)); got != "031" {
				t.Errorf("gathered %q", got)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// A member that is gone ends what waits for it, at once and until there is another group.
func TestLostMemberEndsGathers(t *testing.T) {
	_, clients, m := first(t, StoreOptions{}, "01")
	clients[1].conn.Close()
	for range 2 {
		var left *PeerLeftError
		if _, err := m[0].Gather(t.Context(), "values", nil); !errors.As(err, &left) || left.Peer.Rank != 1 {
			t.Errorf("got %v", err)
		}
	}
	together(t, "0", m[0])
	if _, err := m[0].Gather(t.Context(), "values", nil); err != nil {
		t.Error(err)
	}
}

// A member that is silent is disconnected.
func TestSilentMemberIsLost(t *testing.T) {
	_, _, m := first(t, StoreOptions{LostAfter: 50 * time.Millisecond}, "012")
	together(t, "01", m[0], m[1])
	if _, err := m[2].Regroup(t.Context(), nil); !errors.Is(err, ErrStoreLost) {
		t.Errorf("the silent one: %v", err)
	}
}

func TestRegroupNeedsAnElasticJob(t *testing.T) {
	_, addr := serve(t, StoreOptions{WorldSize: 1})
	if _, err := NewMembers(dial(t, addr, DialOptions{Size: 1}), 0).Regroup(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "do not change") {
		t.Errorf("got %v", err)
	}
}
