package timeline

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

var streamNames = [streams]string{"compute", "communication", "data", "checkpoint", "elastic"}

// event is one of Chrome's trace events (Trace Event Format, "complete" and
// "metadata" events). Times are microseconds.
type event struct {
	Name string         `json:"name"`
	Cat  string         `json:"cat,omitempty"`
	Ph   string         `json:"ph"`
	TS   float64        `json:"ts"`
	Dur  float64        `json:"dur"`
	PID  int            `json:"pid"`
	TID  int            `json:"tid"`
	Args map[string]any `json:"args,omitempty"`
}

// Write writes the slices of all ranks, by rank, as a trace that
// chrome://tracing and ui.perfetto.dev open: a process per rank and a thread
// per stream. Notes describe what is missing from it.
func Write(w io.Writer, ranks [][]Slice, notes ...string) error {
	out := bufio.NewWriter(w)
	head := `{"displayTimeUnit":"ms",`
	if len(notes) > 0 {
		b, err := json.Marshal(map[string][]string{"notes": notes})
		if err != nil {
			return err
		}
		head += `"otherData":` + string(b) + ","
	}
	if _, err := out.WriteString(head + `"traceEvents":[`); err != nil {
		return err
	}
	sep := "\n"
	emit := func(e event) error {
		b, err := json.Marshal(e)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s%s", sep, b)
		}
		sep = ",\n"
		return err
	}
	for rank, s := range ranks {
		if err := writeRank(emit, rank, s); err != nil {
			return err
		}
	}
	if _, err := out.WriteString("\n]}\n"); err != nil {
		return err
	}
	return out.Flush()
}

func writeRank(emit func(event) error, rank int, all []Slice) error {
	label := func(name string, tid int, text string) error {
		return emit(event{Name: name, Ph: "M", PID: rank, TID: tid, Args: map[string]any{"name": text}})
	}
	if err := label("process_name", 0, fmt.Sprint("rank ", rank)); err != nil {
		return err
	}
	for stream := range streams {
		slices := inTurn(all, stream)
		if stream == Elastic && len(slices) == 0 {
			continue // most jobs' ranks do not change
		}
		if err := label("thread_name", int(stream), streamNames[stream]); err != nil {
			return err
		}
		for _, s := range slices {
			if err := emit(s.event(rank)); err != nil {
				return err
			}
		}
	}
	return nil
}

// inTurn returns a stream's slices sorted by time. Clocks of two processes may differ
// slightly: a slice that would start before the end of the previous one starts there, so
// that none overlap.
func inTurn(all []Slice, stream Stream) (out []Slice) {
	for _, s := range all {
		if s.Stream == stream {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b Slice) int { return cmp.Compare(a.Start, b.Start) })
	var free time.Duration
	for i := range out {
		s := &out[i]
		end := max(s.Start+s.Length, free)
		s.Start = max(s.Start, free)
		s.Length = end - s.Start
		free = end
	}
	return out
}

func (s Slice) event(rank int) event {
	e := event{
		Name: s.Name, Cat: streamNames[s.Stream], Ph: "X", PID: rank, TID: int(s.Stream), Args: map[string]any{"step": s.Step},
		TS: float64(s.Start.Nanoseconds()) / 1e3, Dur: float64(s.Length.Nanoseconds()) / 1e3,
	}
	if s.Index >= 0 {
		e.Name = fmt.Sprint(s.Name, " ", s.Index)
	}
	if s.Bytes > 0 {
		e.Args["bytes"] = s.Bytes
	}
	return e
}
