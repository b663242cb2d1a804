package event

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// screen is the part of a terminal that the block needs: a cursor that goes
// to the next line, up and back, and clearing what is behind it. Its lines are
// as long as the text.
type screen struct {
	lines    []string
	row, col int // of the cursor; col in runes
	raw      strings.Builder
}

func (s *screen) Write(b []byte) (int, error) {
	s.raw.Write(b)
	for text := string(b); text != ""; {
		var up int
		switch {
		case strings.HasPrefix(text, "\x1b[J"):
			s.line()
			s.lines = s.lines[:s.row+1]
			s.lines[s.row] = string([]rune(s.lines[s.row])[:s.col])
			text = text[3:]
		case scan(text, "\x1b[%dA", &up):
			s.row -= up
			_, text, _ = strings.Cut(text, "A")
		case strings.HasPrefix(text, "\x1b["):
			_, text, _ = strings.Cut(text, "m")
		case text[0] == '\n':
			s.line()
			s.row, s.col, text = s.row+1, 0, text[1:]
		case text[0] == '\r':
			s.col, text = 0, text[1:]
		default:
			_, n := utf8.DecodeRuneInString(text)
			line := []rune(s.line())
			s.lines[s.row] = string(line[:s.col]) + text[:n]
			if s.col+1 < len(line) {
				s.lines[s.row] += string(line[s.col+1:])
			}
			s.col, text = s.col+1, text[n:]
		}
	}
	return len(b), nil
}

func scan(text, format string, v *int) bool {
	_, err := fmt.Sscanf(text, format, v)
	return err == nil
}

func (s *screen) line() string {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, "")
	}
	return s.lines[s.row]
}

func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// feed plays a short run of two epochs of four steps, a step every 50 ms.
func feed(t *testing.T, w io.Writer, o ProgressOptions) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := NewProgress(w, o)
		play(p)
		p.Close()
	})
}

func play(p *Progress) {
	at := noon
	send := func(rank int, e Event) {
		at = at.Add(50 * time.Millisecond)
		p.Emit(Record{Time: at, Rank: rank, Event: e})
	}
	send(Launcher, &RunStarted{Name: "mnist-ddp", RunDir: "runs/mnist-ddp/3", WorldSize: 2, Device: "cpu", Backend: "tcp", Precision: "none"})
	send(0, &PhaseChanged{Phase: "data"})
	send(0, &PluginLog{Plugin: "mnist", Level: "info", Message: "downloading", Done: 5 << 20, Total: 10 << 20})
	send(0, &DatasetOpened{Plugin: "mnist", Source: "generated", Notice: "training on generated digits", TrainSamples: 512, TestSamples: 64})
	send(1, &DatasetOpened{Plugin: "mnist", Source: "generated", Notice: "training on generated digits", TrainSamples: 512, TestSamples: 64})
	send(0, &PlanMade{Epochs: 2, StepsPerEpoch: 4, Steps: 8, LogFreq: 3})
	for step := 1; step <= 8; step++ {
		e := &StepDone{Step: step, Epoch: (step - 1) / 4, LossMean: 1 / float64(step), Accuracy: 0.5, LR: 0.01, SamplesPerSec: 12345}
		send(1, e)
		send(0, e)
		if step == 4 {
			send(1, &Warning{Source: "tcp", Message: "slow \x1b[2Jlink"})
			time.Sleep(mergeFor) // in a bubble: rank 0 does not say it
			synctest.Wait()
			send(1, &Warning{Source: "train", Message: "the loss is NaN"})
			send(0, &PluginLog{Plugin: "mnist", Level: "warn", Message: "slow disk"})
			send(0, &Warning{Source: "train", Message: "the loss is NaN"})
			send(0, &EvalDone{Step: 4, Loss: 0.25, Accuracy: 0.875, Samples: 64, TookMS: 150})
			send(0, &CheckpointSaved{Step: 4})
		}
	}
	send(0, &RunDone{Status: "ok", Step: 8, Loss: 0.125, Accuracy: 0.9, TotalS: 1.5})
}

const plainRun = `mnist-ddp: 2 × cpu, backend tcp, precision none → runs/mnist-ddp/3
data   mnist (generated): 512 training and 64 test samples
NOTICE training on generated digits
epoch 1/2  step 1/8  loss 1.0000  acc 50.00 %  12,345 samples/s  lr 0.01
epoch 1/2  step 3/8  loss 0.6111  eta 0.5s  acc 50.00 %  12,345 samples/s  lr 0.01
epoch 1/2  step 4/8  loss 0.5208  eta 0.4s  acc 50.00 %  12,345 samples/s  lr 0.01
[rank 1] WARNING tcp: slow  [2Jlink
[ranks 0,1] WARNING train: the loss is NaN
[rank 0] mnist: slow disk
eval   epoch 1  loss 0.2500  accuracy 87.50 %  (64 samples, 0.1 s)
epoch 2/2  step 6/8  loss 0.4083  eta 0.3s  acc 50.00 %  12,345 samples/s  lr 0.01
epoch 2/2  step 8/8  loss 0.3397  eta 0.0s  acc 50.00 %  12,345 samples/s  lr 0.01
ok after 8 steps in 1.5s, loss 0.1250, accuracy 90.00 %
`

func TestPlainProgress(t *testing.T) {
	terminal := true
	for name, o := range map[string]ProgressOptions{
		"no terminal": {Mode: "auto"},
		"asked for":   {Mode: "plain", live: &terminal, Env: env("NO_COLOR", "1")},
		"CI":          {live: &terminal, Env: env("CI", "true", "NO_COLOR", "1")},
		"dumb":        {live: &terminal, Env: env("TERM", "dumb")},
	} {
		var out strings.Builder
		feed(t, &out, o)
		if d := cmp.Diff(plainRun, out.String()); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}

func TestChangesOfRanksArePlain(t *testing.T) {
	for ranks, want := range map[int]string{
		1: "elastic 1 rank instead of 2 from step 7 on, after 0.5 s: gone",
		2: "elastic 2 ranks instead of 1 from step 7 on, after 0.5 s: gone",
	} {
		var b strings.Builder
		p := NewProgress(&b, ProgressOptions{Mode: "plain"})
		p.Emit(Record{Event: &Elastic{Ranks: ranks, Before: 3 - ranks, Step: 7, TookMS: 500, Cause: "gone"}})
		p.Close()
		if strings.TrimSpace(b.String()) != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	}
}

func TestNoProgress(t *testing.T) {
	var out strings.Builder
	feed(t, &out, ProgressOptions{Mode: "none"})
	if out.Len() != 0 {
		t.Error(out.String())
	}
}

func TestColour(t *testing.T) {
	terminal := true
	for _, c := range []struct {
		o    ProgressOptions
		want bool
	}{
		{ProgressOptions{live: &terminal}, true},
		{ProgressOptions{live: &terminal, Env: env("NO_COLOR", "1")}, false},
		{ProgressOptions{live: &terminal, Env: env("NO_COLOR", "")}, true},
		{ProgressOptions{}, false},
		{ProgressOptions{Env: env("CLICOLOR_FORCE", "1")}, true},
		{ProgressOptions{Env: env("CLICOLOR_FORCE", "1", "NO_COLOR", "1")}, false},
	} {
		var out strings.Builder
		feed(t, &out, c.o)
		if got := strings.Contains(out.String(), "\x1b[33mNOTICE"); got != c.want {
			t.Errorf("%+v: colour %v", c.o, got)
		}
	}
}

// On a terminal the notices stay and one block is below them; nothing of it is left above.
func TestLiveProgress(t *testing.T) {
	terminal := true
	var s screen
	feed(t, &s, ProgressOptions{live: &terminal, Width: 200, Env: env("NO_COLOR", "1")})
	want := []string{
		"mnist-ddp: 2 × cpu, backend tcp, precision none → runs/mnist-ddp/3",
		"data   mnist (generated): 512 training and 64 test samples",
		"NOTICE training on generated digits",
		"[rank 1] WARNING tcp: slow  [2Jlink",
		"[ranks 0,1] WARNING train: the loss is NaN",
		"[rank 0] mnist: slow disk",
		"eval   epoch 1  loss 0.2500  accuracy 87.50 %  (64 samples, 0.1 s)",
		"ok after 8 steps in 1.5s, loss 0.1250, accuracy 90.00 %",
	}
	if d := cmp.Diff(want, s.lines); d != "" {
		t.Error(d)
	}
	if !strings.Contains(s.raw.String(), "… data  mnist: downloading 50% of 10 MiB") {
		t.Error("the download was not shown")
	}
	if !strings.Contains(s.raw.String(), "━━━") || !strings.Contains(s.raw.String(), "saved step 4") {
		t.Error("the block was not shown")
	}
}

// Lines of the ranks come in between: they stay, and the block is whole again
// after the next event.
func TestLinesAboveTheBlock(t *testing.T) {
	terminal := true
	var s screen
	p := NewProgress(&s, ProgressOptions{live: &terminal, Width: 200})
	defer p.Close()
	step := func(n int) {
		p.Emit(Record{Time: noon.Add(time.Duration(n) * time.Second), Event: &StepDone{Step: n, SamplesPerSec: 1}})
	}
	p.Emit(Record{Time: noon, Event: &PlanMade{Epochs: 1, StepsPerEpoch: 9, Steps: 9}})
	step(1)
	block := len(s.lines)
	for _, line := range []string{"[rank 0] one\n", "[rank 1] two\n"} {
		if n, err := p.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if d := cmp.Diff([]string{"[rank 0] one", "[rank 1] two"}, s.lines); d != "" {
		t.Error(d)
	}
	step(2)
	if len(s.lines) != block+2 || s.lines[1] != "[rank 1] two" || !strings.Contains(strings.Join(s.lines[2:], " "), "2/9") {
		t.Errorf("the screen is %q", s.lines)
	}
}

// Not every one of very fast steps is drawn.
func TestLiveProgressRate(t *testing.T) {
	terminal := true
	var s screen
	p := NewProgress(&s, ProgressOptions{live: &terminal, Width: 80})
	p.Emit(Record{Time: noon, Event: &PlanMade{Epochs: 1, StepsPerEpoch: 1000, Steps: 1000}})
	for i := range 1000 {
		p.Emit(Record{Time: noon.Add(time.Duration(i) * time.Millisecond), Event: &StepDone{Step: i + 1, SamplesPerSec: 1e6}})
	}
	if n := strings.Count(s.raw.String(), "epoch 1/1"); n != 10 {
		t.Errorf("drawn %d times in a second", n)
	}
	p.Close()
	if len(s.lines) != 2 || !strings.Contains(s.lines[0], "step 1000/1000") {
		t.Errorf("the block that stays is %q", s.lines)
	}
}

// The line fits the terminal, and what matters most is on it: epoch, step,
// loss and ETA, at every width in use.
func TestBlockFitsTheTerminal(t *testing.T) {
	terminal := true
	for width, want := range map[int]string{
		30:  "12 123456 0.1235 eta 17h59m",
		40:  "12/90 123456/900000 0.1235 eta 17h59m",
		43:  "12/90 123456/900000 loss 0.1235 eta 17h59m",
		44:  "epoch 12 step 123456 loss 0.1235 eta 17h59m",
		56:  "epoch 12/90 step 123456/900000 loss 0.1235 eta 17h59m",
		60:  "epoch 12/90  step 123456/900000  loss 0.1235  eta 17h59m",
		80:  "epoch 12/90  step 123456/900000  loss 0.1235  eta 17h59m  acc 97.25 %",
		200: "epoch 12/90  step 123456/900000  loss 0.1235  eta 17h59m  acc 97.25 %  12,345 samples/s  lr 0.001  scale 65536",
	} {
		var s screen
		columns := width
		p := NewProgress(&s, ProgressOptions{live: &terminal, Width: width})
		step := StepDone{Step: 123_456 - 12, Epoch: 11, LossMean: 0.12345, Accuracy: 0.9725, SamplesPerSec: 12345, LR: 0.001, Scale: 65536}
		p.Emit(Record{Time: noon, Event: &RunStarted{Name: "モデル", WorldSize: 1}})
		p.Emit(Record{Time: noon, Event: &PlanMade{Epochs: 90, StepsPerEpoch: 10000, Steps: 900_000}})
		p.Emit(Record{Time: noon, Event: &step})
		step.Step = 123_456
		p.Emit(Record{Time: noon.Add(time.Second), Event: &step})
		got := s.lines[1:]
		p.Close()
		if len(got) != 2 || got[0] != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
		for _, l := range got {
			if n := displayWidth(l); n >= columns {
				t.Errorf("%q takes %d columns of %d", l, n, columns)
			}
		}
	}
}

// What is shown beside each other is of the same steps: the last 20 that were applied.
func TestLossAndAccuracyAreOfTheSameSteps(t *testing.T) {
	var out strings.Builder
	p := NewProgress(&out, ProgressOptions{Mode: "plain", LogFreq: 30})
	p.Emit(Record{Time: noon, Event: &PlanMade{Epochs: 2, StepsPerEpoch: 25, Steps: 50}})
	for n := 1; n <= 30; n++ { // an epoch ends in between
		e := StepDone{Step: n, Epoch: (n - 1) / 25, LossMean: float64(n), Accuracy: float64(n) / 100, Samples: 10}
		if n == 30 {
			e.Samples = 5 // a last batch that is smaller counts for less
		}
		p.Emit(Record{Time: noon, Event: &e})
		p.Emit(Record{Time: noon, Event: &StepDone{Step: n, Epoch: e.Epoch, LossMean: 1e9, Accuracy: 0, Skipped: true}})
	}
	p.Close()
	loss := (float64(11+29)/2*19*10 + 30*5) / 195 // 11 to 29 at 10 samples, 30 at 5
	want := fmt.Sprintf("loss %.4f", loss)
	accuracy := fmt.Sprintf("acc %.2f %%", loss)
	if s := out.String(); !strings.Contains(s, "step 30/50  "+want) || !strings.Contains(s, accuracy) {
		t.Errorf("want %s and %s in\n%s", want, accuracy, s)
	}
}

// busy is a terminal that has not read what was written so far.
type busy struct {
	strings.Builder
	yes bool
}

func (b *busy) Busy() bool { return b.yes }

// A terminal that is behind gets no stale blocks, but every notice.
func TestABusyTerminalGetsNoticesAlone(t *testing.T) {
	terminal := true
	w := &busy{yes: true}
	p := NewProgress(w, ProgressOptions{live: &terminal, Width: 80})
	defer p.Close()
	for n := range 100 {
		p.Emit(Record{Time: noon.Add(time.Duration(n) * time.Second), Event: &StepDone{Step: n + 1}})
	}
	p.Emit(Record{Time: noon, Event: &EvalDone{Loss: 1}})
	if got := w.String(); strings.Contains(got, "step") || !strings.Contains(got, "eval") {
		t.Errorf("%q", got)
	}
}

// A run of many steps has its time to go after a day, too.
func TestTimeToGoOfALongRun(t *testing.T) {
	began := time.Unix(0, 0)
	s := status{first: began, now: began.Add(24 * time.Hour), steps: 2_000_000, last: StepDone{Step: 1_000_000}}
	if eta, ok := s.eta(); !ok || eta.Round(time.Minute) != 24*time.Hour {
		t.Errorf("%v, %v", eta, ok)
	}
}
