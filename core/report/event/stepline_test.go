package event

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// The fast way reads every step that this package writes, as the general way
// does, and refuses it cut off anywhere.
func TestStepsAreDecodedAlikeBothWays(t *testing.T) {
	float := rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN()), rapid.Just(0.0), rapid.Just(-1.0))
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(t, "time"))
		line := Append(nil, Record{Seq: rapid.Uint64().Draw(t, "seq"), Time: at, Rank: rapid.IntRange(-1, 9999).Draw(t, "rank"), Event: &StepDone{
			Step: rapid.Int().Draw(t, "step"), Epoch: rapid.Int().Draw(t, "epoch"), Samples: rapid.Int().Draw(t, "samples"),
			Loss: float.Draw(t, "loss"), LossMean: float.Draw(t, "mean"), Accuracy: float.Draw(t, "accuracy"), LR: float.Draw(t, "lr"),
			StepMS: float.Draw(t, "ms"), DataMS: float.Draw(t, "data"), CommMS: float.Draw(t, "comm"), SamplesPerSec: float.Draw(t, "rate"),
			Tokens: rapid.Int().Draw(t, "tokens"), TokensPerSec: float.Draw(t, "tokens rate"),
			GradNorm: float.Draw(t, "norm"), Scale: float.Draw(t, "scale"), Skipped: rapid.Bool().Draw(t, "skipped"),
		}})
		want, err := decode(line)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := decodeStep(line)
		if d := cmp.Diff(want, got, cmpopts.EquateNaNs()); !ok || d != "" {
			t.Fatalf("%v for %s%s", ok, line, d)
		}
		cut := rapid.IntRange(0, len(line)-2).Draw(t, "cut")
		if _, ok := decodeStep(line[:cut]); ok {
			t.Fatalf("%s was read", line[:cut])
		}
	})
}

// What an older or newer version may write is left to the general way.
func TestUnfamiliarStepsAreLeftAlone(t *testing.T) {
	for _, line := range []string{
		`{"schema":1,"seq":1,"event":"step","step":1,"energy_j":3}`,
		`{"schema":1,"seq":1,"event":"step", "step":1}`,
		`{"schema":1,"seq":1,"event":"step","skipped":false}`,
		`{"schema":1,"seq":1,"event":"step","step":"\u0031"}`,
		`{"schema":1,"seq":1,"event":"step","step":1}{`,
		`{"schema":1,"seq":1,"event":"eval","step":1}`,
		`{"seq":1,"schema":1,"event":"step","step":1}`,
	} {
		if _, ok := decodeStep([]byte(line)); ok {
			t.Errorf("%s was read", line)
		}
	}
}

func TestTimesReadAsRFC3339(t *testing.T) {
	const layout = "2006-01-02T15:04:05.000000Z07:00"
	for _, at := range []time.Time{noon, noon.Add(-13 * time.Hour), time.Unix(0, 0), time.UnixMicro(1<<52 + 7), noon.AddDate(0, 1, 9)} {
		var w encoder
		w.time(at.UTC())
		if want := at.UTC().Format(layout); string(w.b) != want {
			t.Errorf("%s instead of %s", w.b, want)
		}
	}
}

func BenchmarkDecodeStep(b *testing.B) {
	line := Append(nil, Record{Seq: 1, Time: noon, Event: &StepDone{Step: 3, Loss: 1.0 / 3, LossMean: 1.0 / 7, LR: 0.01, StepMS: 0.12345, DataMS: 0.01, Samples: 200, SamplesPerSec: 812345.678}})
	for name, f := range map[string]func([]byte) (Record, error){"fast": Decode, "general": decode} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := f(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEmitStep(b *testing.B) {
	bus := NewBus(0, NewJSONLines(discard{}, nil), NewJSONLines(discard{}, nil))
	e := &StepDone{Step: 3, Loss: 1.0 / 3, LossMean: 1.0 / 7, LR: 0.01, StepMS: 0.12345, DataMS: 0.01, Samples: 200, SamplesPerSec: 812345.678}
	for b.Loop() {
		bus.Emit(e)
	}
	if err := bus.Close(); err != nil {
		b.Fatal(err)
	}
}
