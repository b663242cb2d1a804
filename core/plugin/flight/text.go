package flight

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// String formats an operation: "#12 all_reduce sum f32, 4194304 bytes, bucket 1".
func (o *Operation) String() string {
	s := fmt.Sprintf("#%d %s", o.Seq, o.Op)
	for _, word := range []string{o.Reduce, o.DType} {
		if word != "" {
			s += " " + word
		}
	}
	if o.Bytes > 0 {
		s += fmt.Sprintf(", %d bytes", o.Bytes)
	}
	if o.Bucket >= 0 {
		s += fmt.Sprintf(", bucket %d", o.Bucket)
	}
	return s
}

func ranks(list []int) string {
	words := make([]string, len(list))
	for i, r := range list {
		words[i] = strconv.Itoa(r)
	}
	if len(words) == 1 {
		return "rank " + words[0]
	}
	return "ranks " + strings.Join(words, ", ")
}

// JSON writes the whole report as one object.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Text writes the state of every rank, what the ranks wait for, and then at most
// the last n operations of each rank.
func (r *Report) Text(w io.Writer, n int) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for i := range r.Ranks {
		r.Ranks[i].writeState(t)
	}
	if len(r.Absent) > 0 {
		fmt.Fprintf(t, "%s\tno record here\n", ranks(r.Absent))
	}
	if r.Differ != "" {
		fmt.Fprintf(t, "\n%s\n", r.Differ)
	}
	if r.Slowest != nil {
		fmt.Fprintf(t, "\n%v\n", r.Slowest)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(t, "note: %s\n", note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range r.Ranks {
		if err := r.Ranks[i].table(w, n); err != nil {
			return err
		}
	}
	return nil
}

func (k *Rank) writeState(w io.Writer) {
	fmt.Fprintf(w, "rank %d\t%s on %s, pid %d\t%d operations", k.Rank, k.Plugin, k.Host, k.PID, k.Total)
	if o := k.last(Ended); o != nil {
		fmt.Fprintf(w, "\tlast ended: %v", o)
	}
	if o := k.open(0); o != nil {
		fmt.Fprintf(w, "\t%s since %s: %v", o.State, clock(o.since()), o)
	}
	fmt.Fprintln(w)
}

func (o *Operation) since() time.Time {
	if o.State == Begun {
		return o.Begun
	}
	return o.Queued
}

func (k *Rank) table(w io.Writer, n int) error {
	ops := k.Operations[max(0, len(k.Operations)-n):]
	if len(ops) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nrank %d, the last %d operations\n", k.Rank, len(ops))
	fmt.Fprintln(t, "queued at\tseq\toperation\tdtype\tbytes\tbucket\tgeneration\twaited\ttook\tstate\t")
	for i := range ops {
		o := &ops[i]
		bucket := "-"
		if o.Bucket >= 0 {
			bucket = strconv.Itoa(o.Bucket)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\t\n", clock(o.Queued), o.Seq, strings.TrimSpace(o.Op+" "+o.Reduce), o.DType, o.Bytes, bucket,
			o.Generation, between(o.Queued, o.Begun), between(o.Begun, o.Ended), o.State)
	}
	return t.Flush()
}

func clock(t time.Time) string { return t.Local().Format("15:04:05.000000") }

func between(a, b time.Time) string {
	if a.IsZero() || b.IsZero() {
		return "-"
	}
	return b.Sub(a).Round(time.Microsecond).String()
}
