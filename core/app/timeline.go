package app

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/timeline"
)

// Ranks send their traces to rank 0 through the job's store, in pieces far smaller than
// a frame. A missing trace does not fail a run; rank 0 reports it.

// piece is the maximum size in bytes of one piece of a trace.
const piece = 1 << 20

// trace is what a rank sends.
type trace struct {
	Slices []timeline.Slice
	Note   string // what was omitted
}

// timeline sends this rank's trace, or on rank 0 collects all and writes timeline.json.
func (r *runner) timeline(ctx context.Context, w rank.World, own []timeline.Slice) {
	store, err := r.p.Store.Get(ctx)
	mine := trace{}
	mine.Slices, mine.Note = timeline.Cut(own, timeline.Share(w.Size))
	switch {
	case err != nil:
	case w.Rank != 0:
		err = sendTrace(ctx, store, w.Rank, mine)
	default:
		ranks, notes := collectTraces(ctx, store, w.Size, mine)
		for _, n := range notes[:min(1, len(notes))] {
			r.p.Bus.Emit(&event.Warning{Source: "timeline", Message: fmt.Sprintf("%s (timeline.json has %d such notes)", n, len(notes))})
		}
		err = r.writeTimeline(ranks, notes)
	}
	if err != nil {
		r.p.Bus.Emit(&event.Warning{Source: "timeline", Message: err.Error()})
	}
}

func (r *runner) writeTimeline(ranks [][]timeline.Slice, notes []string) error {
	f, err := r.p.FS.Create(r.p.Dir.Timeline())
	if err != nil {
		return err
	}
	return errors.Join(timeline.Write(f, ranks, notes...), f.Close())
}

func pieceKey(rank, i int) string { return fmt.Sprintf("timeline/%d/%d", rank, i) }

// sendTrace stores a trace in the job's store. Its last piece is shorter than the others.
func sendTrace(ctx context.Context, store rank.Store, from int, t trace) error {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := errors.Join(json.NewEncoder(z).Encode(t), z.Close()); err != nil {
		return err
	}
	for i := 0; ; i++ {
		part := b.Next(piece)
		if err := store.Set(ctx, pieceKey(from, i), part); err != nil {
			return fmt.Errorf("sending the timeline: %w", err)
		}
		if len(part) < piece {
			return nil
		}
	}
}

// collectTraces returns the traces by rank, and notes about what is missing.
func collectTraces(ctx context.Context, store rank.Store, world int, own trace) (ranks [][]timeline.Slice, notes []string) {
	ranks = make([][]timeline.Slice, world)
	for r := range world {
		t, err := own, error(nil)
		if r > 0 {
			t, err = receiveTrace(ctx, store, r)
		}
		if err != nil {
			t.Note = "its trace did not arrive: " + err.Error()
		}
		if ranks[r] = t.Slices; t.Note != "" {
			notes = append(notes, fmt.Sprintf("rank %d: %s", r, t.Note))
		}
	}
	return ranks, notes
}

func receiveTrace(ctx context.Context, store rank.Store, from int) (t trace, err error) {
	var b bytes.Buffer
	for i, n := 0, piece; n == piece; i++ {
		part, err := store.Get(ctx, pieceKey(from, i))
		if err != nil {
			return t, err
		}
		n, _ = b.Write(part)
		if _, err := store.Delete(ctx, pieceKey(from, i)); err != nil {
			return t, err
		}
	}
	z, err := gzip.NewReader(&b)
	if err == nil {
		err = json.NewDecoder(z).Decode(&t)
	}
	return t, err
}
