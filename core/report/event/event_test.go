package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/trainctl/trainctl/core/train/checkpoint/faultfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 123456000, time.UTC)

// filled gives an event with another value in every field.
func filled(kind string) Event {
	e := newRecord(kind)
	v := reflect.ValueOf(e).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("a \"b\"\\ \n\x01 ü \u2028 <" + v.Type().Field(i).Name)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(-1000 - i))
		case reflect.Float64:
			f.SetFloat(1.0/3 + float64(i))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			switch f.Type().Elem().Kind() {
			case reflect.Int:
				f.Set(reflect.ValueOf([]int{3, 0, -1}))
			case reflect.Float64:
				f.Set(reflect.ValueOf([]float64{0.5, 1.0 / 3}))
			default:
				f.Set(reflect.ValueOf([]string{"x", "", "y\tz"}))
			}
		case reflect.Pointer:
			f.Set(reflect.ValueOf(&EvalMetrics{TopK: 5, TopKAccuracy: 0.75, PerClass: []ClassMetrics{{1, "a \"b\"", 7, 0.5, 0.25, 1.0 / 3, 1}}}))
		default:
			panic(f.Kind())
		}
	}
	return e
}

func roundTrip(t *testing.T, r Record) {
	t.Helper()
	line := Append(nil, r)
	if !json.Valid(line) || bytes.Count(line, []byte("\n")) != 1 {
		t.Fatalf("not one JSON line: %s", line)
	}
	got, err := Decode(line)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, got, cmpopts.EquateNaNs()); d != "" {
		t.Errorf("%s\n%s", line, d)
	}
}

func TestRoundTrip(t *testing.T) {
	for kind := range kinds {
		roundTrip(t, Record{Seq: 1<<64 - 1, Time: noon, Rank: Launcher, Event: filled(kind)})
		if got := newRecord(kind).Kind(); got != kind {
			t.Errorf("%s calls itself %s", kind, got)
		}
		if got := KindOf(Append(nil, Record{Time: noon, Event: filled(kind)})); got != kind {
			t.Errorf("the line of %s is one of %q", kind, got)
		}
	}
	roundTrip(t, Record{Seq: 1, Time: noon, Event: &StepDone{Step: 3, Loss: math.NaN(), LossMean: math.NaN(), Accuracy: -1, GradNorm: math.NaN()}})
	roundTrip(t, Record{Seq: 1, Time: noon, Event: &EvalDone{Loss: math.NaN(), Accuracy: -1}})
	roundTrip(t, Record{Seq: 1, Time: noon, Event: &RunDone{Status: "failed", Loss: math.NaN(), Accuracy: -1}})
	for kind := range kinds {
		e := newRecord(kind)
		if a, ok := e.(interface{ absent() }); ok {
			a.absent()
		}
		roundTrip(t, Record{Seq: 1, Time: noon, Event: e})
	}
}

// Every value, the non-finite ones too, keeps the line valid JSON.
func TestNonFiniteIsNull(t *testing.T) {
	line := Append(nil, Record{Time: noon, Event: &StepDone{Loss: math.Inf(1), LossMean: math.NaN(), LR: 0.1}})
	for _, s := range []string{`"schema":1,`, `"ts":"2026-11-21T12:00:00.123456Z"`, `"rank":0,"event":"step"`, `"loss":null,"loss_mean":null`, `"lr":0.1,`} {
		if !bytes.Contains(line, []byte(s)) {
			t.Errorf("%s is not in %s", s, line)
		}
	}
}

func TestKindOfNothing(t *testing.T) {
	for _, line := range []string{"", "{}", `{"event":`, `{"event":"st`, `{"event":3}`} {
		if got := KindOf([]byte(line)); got != "" {
			t.Errorf("%s is of kind %q", line, got)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	var unknown *UnknownError
	if _, err := Decode([]byte(`{"schema":1,"seq":1,"ts":"2026-11-21T12:00:00Z","rank":0,"event":"tea"}`)); !errors.As(err, &unknown) || unknown.Kind != "tea" {
		t.Errorf("unknown event: %v", err)
	}
	for _, line := range []string{``, `x`, `{}`, `{"schema":2,"event":"step"}`, `{"schema":1,"event":"step","step":"one"}`} {
		if _, err := Decode([]byte(line)); err == nil {
			t.Errorf("%q was decoded", line)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for kind := range kinds {
		f.Add(Append(nil, Record{Seq: 1, Time: noon, Event: filled(kind)}))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := Decode(line)
		if err != nil || r.Time.Year() < 0 || r.Time.Year() > 9999 {
			return
		}
		if !json.Valid(Append(nil, r)) {
			t.Fatalf("%s became invalid", line)
		}
	})
}

func TestBusStampsAndRelays(t *testing.T) {
	var got []Record
	b := NewBus(2, Func(func(r Record) { got = append(got, r) }))
	b.now = func() time.Time { return noon }
	first, relayed := &PhaseChanged{Phase: "data"}, Record{Seq: 40, Time: noon.Add(1), Rank: 7, Event: &Warning{}}
	b.Emit(first)
	b.Relay(relayed)
	b.Emit(first)
	want := []Record{{Seq: 1, Time: noon, Rank: 2, Event: first}, relayed, {Seq: 2, Time: noon, Rank: 2, Event: first}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	b.Emit(first)
	if len(got) != 3 {
		t.Error("an event after Close arrived")
	}
}

// A warning of a rank without the run's files gets into those of another rank, unless some rank has had it.
func TestWarningsAreDeliveredOnce(t *testing.T) {
	var files []string
	zero := NewBus(0)
	zero.AddFile(Func(func(r Record) { files = append(files, fmt.Sprint(r.Rank, r.Event.(*Warning).Message)) }))
	zero.Emit(&Warning{Source: "tcp", Message: " everywhere"})
	for n := 1; n <= 2; n++ {
		b := NewBus(n)
		for _, text := range []string{" everywhere", " not on 0", " not on 0", fmt.Sprint(" on ", n)} {
			b.Emit(&Warning{Source: "tcp", Message: text})
		}
		zero.Deliver(b.Outbox())
	}
	if want := []string{"0 everywhere", "1 not on 0", "1 on 1", "2 on 2"}; !slices.Equal(files, want) {
		t.Errorf("%q, want %q", files, want)
	}
}

// A plugin restart of a rank without the run's files gets into those of another rank, once, under its own rank,
// and into no other sink there.
func TestOutboxIsDeliveredToFiles(t *testing.T) {
	one, zero := NewBus(1), NewBus(0)
	var files, others []Record
	zero.AddFile(Func(func(r Record) { files = append(files, r) }))
	zero.Add(Func(func(r Record) { others = append(others, r) }))
	zero.Emit(&PluginRestarted{Type: "dataset", Restart: 1})
	one.Emit(&PhaseChanged{})
	one.Emit(&PluginRestarted{Type: "dataset", Restart: 7})
	lines := one.Outbox()
	one.Emit(&PluginRestarted{Type: "precision", Restart: 8})
	one.Delivered(len(lines))
	zero.Deliver(lines)
	zero.Deliver(append([]byte("of another version\n"), one.Outbox()...))
	if len(others) != 1 || len(zero.Outbox()) != 0 {
		t.Errorf("%d records in other sinks, %q in the outbox of the rank with the files", len(others), zero.Outbox())
	}
	var got []int
	for _, r := range files {
		got = append(got, r.Rank, r.Event.(*PluginRestarted).Restart)
	}
	if want := []int{0, 1, 1, 7, 1, 8}; !slices.Equal(got, want) {
		t.Errorf("ranks and restarts %v, want %v", got, want)
	}
}

// A full disk costs the events and one warning, which itself is an event.
func TestDiskFullWarnsOnce(t *testing.T) {
	fs := faultfs.New()
	var seen []string
	b := NewBus(0)
	warn := func(err error) { b.Emit(&Warning{Source: "events", Message: err.Error()}) }
	b.Add(Func(func(r Record) {
		if w, ok := r.Event.(*Warning); ok {
			seen = append(seen, w.Message)
		}
	}))
	j, err := OpenJSONLines(fs, "/events.jsonl", warn)
	if err != nil {
		t.Fatal(err)
	}
	b.Add(j)
	tb, err := NewTensorBoard(fs, "/tensorboard", warn)
	if err != nil {
		t.Fatal(err)
	}
	b.Add(tb)
	b.Emit(&PhaseChanged{Phase: "train"})
	fs.SetSpace(10)
	at := time.Now() // the files were opened just now
	b.now = func() time.Time { at = at.Add(time.Hour); return at }
	for i := range 5 {
		b.Emit(&StepDone{Step: i + 1})
	}
	if len(seen) != 2 || !strings.Contains(seen[0]+seen[1], syscall.ENOSPC.Error()) {
		t.Errorf("warnings: %q", seen)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestStepEventDoesNotAllocate(t *testing.T) {
	fs := faultfs.New()
	tb, err := NewTensorBoard(fs, "/tb", nil)
	if err != nil {
		t.Fatal(err)
	}
	b := NewBus(0, NewJSONLines(discard{}, nil), tb)
	step := &StepDone{Loss: 1.5, LossMean: 1.25, LR: 0.1, StepMS: 3.3, SamplesPerSec: 30000, GradNorm: 2, Scale: 65536}
	tb.buf = make([]byte, 0, 1<<20)
	n := testing.AllocsPerRun(100, func() {
		step.Step++
		b.Emit(step)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
