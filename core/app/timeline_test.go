package app

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/report/timeline"
)

// board is a store without ranks, which refuses what is longer than a piece.
type board struct {
	rank.Store
	t    *testing.T
	held map[string][]byte
}

var errGone = errors.New("rank 2 is gone")

func (b *board) Set(_ context.Context, key string, val []byte) error {
	if len(val) > piece {
		b.t.Errorf("%s: a piece of %d bytes", key, len(val))
	}
	b.held[key] = append([]byte{}, val...)
	return nil
}

func (b *board) Get(_ context.Context, key string) ([]byte, error) {
	v, ok := b.held[key]
	if !ok {
		return nil, errGone
	}
	return v, nil
}

func (b *board) Delete(_ context.Context, key string) (bool, error) {
	delete(b.held, key)
	return true, nil
}

// Traces travel in pieces, nothing of them stays in the store, and a rank whose
// trace does not come is a note.
func TestTracesTravelInPieces(t *testing.T) {
	b := &board{t: t, held: map[string][]byte{}}
	var long []timeline.Slice
	for i := range 200_000 { // does not compress to less than a piece
		long = append(long, timeline.Slice{Stream: timeline.Communication, Name: "bucket", Index: i % 7, Step: i, Start: time.Duration(rand.Int64N(1 << 50)), Length: time.Duration(rand.Int64N(1 << 30))})
	}
	if err := sendTrace(t.Context(), b, 1, trace{Slices: long, Note: "steps 3 to 4 are left out"}); err != nil {
		t.Fatal(err)
	}
	if len(b.held) < 2 {
		t.Errorf("%d pieces", len(b.held))
	}
	own := trace{Slices: long[:3]}
	ranks, notes := collectTraces(t.Context(), b, 3, own)
	if d := cmp.Diff([][]timeline.Slice{long[:3], long, nil}, ranks); d != "" {
		t.Error(d)
	}
	if len(notes) != 2 || notes[0] != "rank 1: steps 3 to 4 are left out" || !strings.Contains(notes[1], "rank 2: its trace did not arrive: "+errGone.Error()) {
		t.Errorf("%q", notes)
	}
	if len(b.held) != 0 {
		t.Errorf("%d pieces stay", len(b.held))
	}
}
