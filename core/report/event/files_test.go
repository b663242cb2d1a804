package event

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/train/checkpoint/faultfs"
)

// scalars decodes an event file with a reader of its own, field by field.
func scalars(t *testing.T, b []byte) (version string, values map[string][]float32) {
	t.Helper()
	values = map[string][]float32{}
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := func(b []byte) uint32 { c := crc32.Checksum(b, table); return (c>>15 | c<<17) + 0xa282ead8 }
	for len(b) > 0 {
		n := binary.LittleEndian.Uint64(b)
		if binary.LittleEndian.Uint32(b[8:]) != sum(b[:8]) {
			t.Fatal("the sum over a length is wrong")
		}
		data := b[12 : 12+n]
		if binary.LittleEndian.Uint32(b[12+n:]) != sum(data) {
			t.Fatal("the sum over a record is wrong")
		}
		b = b[16+n:]
		var step uint64
		message(t, data, func(field int, num uint64, sub []byte) {
			switch field {
			case 2:
				step = num
			case 3:
				version = string(sub)
			case 5:
				message(t, sub, func(_ int, _ uint64, value []byte) {
					var tag string
					message(t, value, func(field int, num uint64, sub []byte) {
						if field == 1 {
							tag = string(sub)
							return
						}
						key := fmt.Sprintf("%s@%d", tag, step)
						values[key] = append(values[key], math.Float32frombits(uint32(num)))
					})
				})
			}
		})
	}
	return version, values
}

func message(t *testing.T, b []byte, field func(n int, num uint64, sub []byte)) {
	t.Helper()
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		b = b[n:]
		var num uint64
		var sub []byte
		switch key & 7 {
		case 0:
			num, n = binary.Uvarint(b)
		case 1:
			num, n = binary.LittleEndian.Uint64(b), 8
		case 2:
			size, k := binary.Uvarint(b)
			sub, n = b[k:k+int(size)], k+int(size)
		case 5:
			num, n = uint64(binary.LittleEndian.Uint32(b)), 4
		default:
			t.Fatalf("wire type %d", key&7)
		}
		field(int(key>>3), num, sub)
		b = b[n:]
	}
}

func TestTensorBoardFile(t *testing.T) {
	fs := faultfs.New()
	tb, err := NewTensorBoard(fs, "/tb", nil)
	if err != nil {
		t.Fatal(err)
	}
	tb.Emit(Record{Time: noon, Event: &StepDone{Step: 300, LossMean: 0.5, Accuracy: -1, LR: 0.25, SamplesPerSec: 1000, StepMS: 10, DataMS: 1, CommMS: 2, Scale: 1024}})
	tb.Emit(Record{Time: noon, Event: &EvalDone{Step: 300, Loss: 0.125, Accuracy: 0.75}})
	tb.Emit(Record{Time: noon, Event: &PhaseChanged{Phase: "done"}})
	if err := tb.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := afero.Glob(fs, "/tb/events.out.tfevents.*")
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	b, err := afero.ReadFile(fs, files[0])
	if err != nil {
		t.Fatal(err)
	}
	version, got := scalars(t, b)
	want := map[string][]float32{
		"train/loss@300": {0.5}, "opt/lr@300": {0.25}, "amp/scale@300": {1024}, "perf/samples_per_sec@300": {1000},
		"perf/data_wait_pct@300": {10}, "perf/comm_exposed_pct@300": {20}, "val/loss@300": {0.125}, "val/accuracy@300": {0.75},
	}
	if d := cmp.Diff(want, got); d != "" || version != "brain.Event:2" {
		t.Error(version, d)
	}
}

// Scalars reach the file while the run goes on, by the clock of the events.
func TestTensorBoardFlushes(t *testing.T) {
	fs := faultfs.New()
	tb, err := NewTensorBoard(fs, "/tb", nil)
	if err != nil {
		t.Fatal(err)
	}
	tb.flushed = noon
	size := func() int64 {
		info, err := tb.f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	tb.Emit(Record{Time: noon.Add(FlushEvery - time.Nanosecond), Event: &StepDone{Step: 1}})
	if size() != 0 {
		t.Error("written too early")
	}
	tb.Emit(Record{Time: noon.Add(FlushEvery), Event: &StepDone{Step: 2}})
	if size() == 0 {
		t.Error("not written")
	}
	if err := tb.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSummaryKeys(t *testing.T) {
	accuracy := Number(0.99)
	s := Summary{
		Name: "mnist-ddp", Status: "ok", WorldSize: 2, Device: "cpu", Backend: "tcp", Precision: "none",
		Dataset: DatasetSummary{Plugin: "mnist", Source: "idx", TrainSamples: 60000, TestSamples: 10000, Classes: []string{"a", "b"}}, Plugins: []PluginStarted{{"backend", "tcp", "1.2", "/bin/trainctl", "00ff"}}, Epochs: 2, Steps: 600,
		Train: TrainSummary{0.5, 30000, 0, 4, 9, nil}, Eval: &EvalSummary{0.25, &accuracy, 0, 0, nil}, Time: TimeSummary{0.5, 8, 9},
		Comm: CommSummary{1, [2]float64{1, 25}, 116000, 0.5, 0.25, nil, 0, 0, nil}, Memory: MemorySummary{[]int64{1, 2}}, ParamsSHA256: []string{"a", "b"}, Restarts: 0,
	}
	fs := faultfs.New()
	if err := WriteSummary(fs, "/summary.json", s); err != nil {
		t.Fatal(err)
	}
	b, err := afero.ReadFile(fs, "/summary.json")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"schema":1,"name":"mnist-ddp","status":"ok","world_size":2,"device":"cpu","backend":"tcp","precision":"none",` +
		`"dataset":{"plugin":"mnist","source":"idx","train_samples":60000,"test_samples":10000,"classes":["a","b"]},"plugins":[{"type":"backend","name":"tcp","version":"1.2","path":"/bin/trainctl","sha256":"00ff"}],"epochs":2,"steps":600,` +
		`"train":{"loss":0.5,"samples_per_sec":30000,"step_ms_p50":4,"step_ms_p99":9},"eval":{"loss":0.25,"accuracy":0.99},` +
		`"time":{"to_first_step_s":0.5,"train_s":8,"total_s":9},"comm":{"buckets":1,"bucket_caps_mb":[1,25],"bytes_per_step":116000,"exposed_ms_p50":0.5,"imbalance_ms_p50":0.25,"backend_restarts":0},` +
		`"memory":{"peak_rss_bytes":[1,2]},"params_sha256":["a","b"],"restarts":0}`
	var compact bytes.Buffer
	if err := json.Compact(&compact, b); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, compact.String()); d != "" {
		t.Error(d)
	}
	s.Schema = Schema
	if got, err := ReadSummary(fs, "/summary.json"); err != nil || cmp.Diff(s, got) != "" {
		t.Error(err, cmp.Diff(s, got))
	}
	s.Eval, s.Train.Loss = nil, Number(math.NaN())
	if err := WriteSummary(fs, "/summary.json", s); err != nil {
		t.Fatal(err)
	}
	b, _ = afero.ReadFile(fs, "/summary.json")
	if bytes.Contains(b, []byte(`"eval"`)) || !bytes.Contains(b, []byte(`"loss": null`)) {
		t.Errorf("%s", b)
	}
}

// A reader finds the old summary or the new one, whatever fails.
func TestSummaryIsAtomic(t *testing.T) {
	for k := 1; ; k++ {
		fs := faultfs.New()
		if err := WriteSummary(fs, "/s/summary.json", Summary{Name: "old"}); err == nil {
			t.Fatal("written into a directory that is not there")
		}
		if err := fs.Mkdir("/s", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := WriteSummary(fs, "/s/summary.json", Summary{Name: "old"}); err != nil {
			t.Fatal(err)
		}
		fs.Inject(faultfs.FailAt(k, syscall.EIO))
		err := WriteSummary(fs, "/s/summary.json", Summary{Name: "new"})
		fs.Inject(nil)
		got, rerr := ReadSummary(fs, "/s/summary.json")
		if rerr != nil || err == nil && got.Name != "new" || got.Name != "old" && got.Name != "new" {
			t.Fatalf("operation %d: wrote %v, read %q %v", k, err, got.Name, rerr)
		}
		if err == nil {
			return
		}
	}
}

func TestRunDirNumbers(t *testing.T) {
	base := t.TempDir()
	fsys := afero.NewOsFs()
	const runs = 8
	paths := make([]string, runs)
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() {
			d, err := CreateRunDir(fsys, base, "mnist")
			if err != nil {
				t.Error(err)
			}
			paths[i] = d.Path
		})
	}
	wg.Wait()
	slices.Sort(paths)
	for i, p := range paths {
		if want := filepath.Join(base, "mnist", fmt.Sprint(i+1)); p != want {
			t.Errorf("run %d is in %s", i+1, p)
		}
		for _, sub := range []string{"logs", "checkpoints"} {
			if _, err := os.Stat(filepath.Join(p, sub)); err != nil {
				t.Error(err)
			}
		}
	}
	last, err := CreateRunDir(fsys, base, "mnist")
	if err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(filepath.Join(base, "mnist", "latest")); err != nil || to != filepath.Base(last.Path) {
		t.Errorf("latest is %q %v, want %s", to, err, last.Path)
	}
}

// Without symbolic links latest is a file, and OpenRunDir follows it all the same.
func TestRunDirWithoutSymlinks(t *testing.T) {
	fsys := faultfs.New()
	for range 2 {
		if _, err := CreateRunDir(fsys, "/runs", "x"); err != nil {
			t.Fatal(err)
		}
	}
	d, err := OpenRunDir(fsys, "/runs/x/latest")
	if err != nil || d.Path != "/runs/x/2" {
		t.Errorf("%s %v", d.Path, err)
	}
	if d.RankLog(3) != "/runs/x/2/logs/rank-3.log" || d.Events() != "/runs/x/2/events.jsonl" {
		t.Errorf("%s %s", d.RankLog(3), d.Events())
	}
	if _, err := OpenRunDir(fsys, "/runs/x/9"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// Hosts on one file system get one run directory, others one of their own that
// all ranks of the host share, and no run takes the place of another.
func TestJoinRunDir(t *testing.T) {
	fsys, other := afero.NewMemMapFs(), afero.NewMemMapFs()
	first, err := CreateRunDir(fsys, "runs", "job")
	if err != nil {
		t.Fatal(err)
	}
	inv, err := first.Invite()
	if err != nil {
		t.Fatal(err)
	}
	if d, shared, err := JoinRunDir(fsys, "runs", "job", inv); err != nil || !shared || d.Path != first.Path {
		t.Errorf("%v %v %v", d, shared, err)
	}
	if _, err := CreateRunDir(other, "runs", "job"); err != nil { // its number 1 is another run
		t.Fatal(err)
	}
	for rank := range 2 {
		d, shared, err := JoinRunDir(other, "runs", "job", inv)
		if err != nil || shared != (rank > 0) || d.Path != filepath.Join("runs", "job", "2") {
			t.Errorf("rank %d: %v %v %v", rank, d, shared, err)
		}
	}
}

// A resumed run shows one curve: it has the earlier run's files, in front of its
// own by name, and says which of their steps are void. Once more it is the same,
// and weights alone or a run that is gone are nothing to go on with.
func TestTensorBoardGoesOn(t *testing.T) {
	fs := faultfs.New()
	run := func(from *CheckpointLoaded) (own string, names []string) {
		t.Helper()
		d, err := CreateRunDir(fs, "/runs", "x")
		if err != nil {
			t.Fatal(err)
		}
		tb, err := NewTensorBoard(fs, d.TensorBoard(), func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		bus := NewBus(0, tb)
		if from != nil {
			bus.Emit(from)
		}
		bus.Emit(&StepDone{Step: 9, LossMean: 1, Accuracy: -1})
		if err := bus.Close(); err != nil {
			t.Fatal(err)
		}
		files, err := afero.ReadDir(fs, d.TensorBoard())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			names = append(names, f.Name())
		}
		return names[len(names)-1], names
	}
	start := []byte{2 << 3, 9, 7<<3 | 2, 2, 1 << 3, 1} // step 9, session_log START
	first, _ := run(nil)
	second, names := run(&CheckpointLoaded{Step: 8, Path: "/runs/x/1/checkpoints/step-8"})
	if want := []string{first, second}; !slices.Equal(names, want) || second <= first {
		t.Fatal(names, want)
	}
	third, names := run(&CheckpointLoaded{Step: 8, Path: "/runs/x/2/checkpoints/step-8"})
	if want := []string{first, second, third}; !slices.Equal(names, want) {
		t.Fatal(names, want)
	}
	for i, want := range []bool{false, true, true} {
		b, err := afero.ReadFile(fs, "/runs/x/3/tensorboard/"+names[i])
		if err != nil || bytes.Contains(b, start) != want {
			t.Errorf("%s: start %v, %v", names[i], !want, err)
		}
	}
	for _, from := range []*CheckpointLoaded{{Path: "/runs/x/1/checkpoints/step-8"}, {Step: 8, Path: "/gone/checkpoints/step-8"}, {Step: 8, Path: "/weights"}} {
		if _, names := run(from); len(names) != 1 {
			t.Errorf("%+v: %v", from, names)
		}
	}
}

// Pictures are those of the last evaluation, and nothing else is removed or read.
func TestPicturesOfAnEvaluation(t *testing.T) {
	fsys := afero.NewMemMapFs()
	dir, err := CreateRunDir(fsys, "/runs", "a")
	if err != nil {
		t.Fatal(err)
	}
	picture := func(side int) []byte {
		var b bytes.Buffer
		if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, side, side))); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	other := filepath.Join(dir.Path, "worst", "mine.png")
	var last Evaluation
	for step := 1; step <= 2; step++ {
		last = Evaluation{Step: step, Loss: Number(3 - step), Worst: []WorstSample{
			{Split: "test", Index: int64(step), Picture: picture(4 + step)}, {Split: "train", Index: 7, Picture: picture(4)}, {Split: "test", Index: 9},
		}}
		if err := dir.WriteEvaluation(fsys, &last); err != nil {
			t.Fatal(err)
		}
		if err := afero.WriteFile(fsys, other, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	files, err := afero.ReadDir(fsys, filepath.Join(dir.Path, "worst"))
	for _, f := range files {
		names = append(names, f.Name())
	}
	if err != nil || strings.Join(names, " ") != "mine.png test-2.png train-7.png" {
		t.Errorf("%v: %v", names, err)
	}
	var got Evaluation
	b, err := afero.ReadFile(fsys, dir.EvaluationFile())
	if err == nil {
		err = json.Unmarshal(b, &got)
	}
	dir.ReadPictures(fsys, &got)
	if d := cmp.Diff(last, got); err != nil || d != "" {
		t.Errorf("%v: %s", err, d)
	}

	huge := filepath.Join(dir.Path, "worst", "test-3.png")
	if err := afero.WriteFile(fsys, huge, picture(mostPictureSide+1), 0o644); err != nil {
		t.Fatal(err)
	}
	hostile := Evaluation{Worst: []WorstSample{{Image: "worst/mine.png"}, {Image: "../1/worst/test-2.png"}, {Image: "/runs/a/1/worst/test-2.png"}, {Image: "worst/test-3.png"}, {Image: "worst/test-4.png"}}}
	dir.ReadPictures(fsys, &hostile)
	for _, w := range hostile.Worst {
		if w.Picture != nil {
			t.Errorf("%s is read", w.Image)
		}
	}
}

// The best evaluation stays with its pictures until there is a better one.
func TestBestEvaluationIsKept(t *testing.T) {
	fsys := afero.NewMemMapFs()
	dir, err := CreateRunDir(fsys, "/runs", "a")
	if err != nil {
		t.Fatal(err)
	}
	evaluation := func(step int, accuracy, loss Number) *Evaluation {
		return &Evaluation{Step: step, Loss: loss, Accuracy: &accuracy, Worst: []WorstSample{{Split: "test", Index: int64(step), Picture: []byte("picture")}}}
	}
	for _, tc := range []struct {
		e        *Evaluation
		best     int
		pictures string
	}{
		{evaluation(1, 0.5, Number(math.NaN())), 1, "test-1.png"},
		{evaluation(2, 0.4, 1), 2, "test-2.png"},
		{evaluation(3, 0.7, 2), 3, "test-3.png"},
		{evaluation(4, 0.6, 0.5), 3, "test-3.png test-4.png"},
		{evaluation(5, 0.7, 3), 3, "test-3.png test-5.png"},
		{evaluation(6, 0.7, 1), 6, "test-6.png"},
		{evaluation(7, 0.7, Number(math.NaN())), 6, "test-6.png test-7.png"},
	} {
		if err := dir.WriteEvaluation(fsys, tc.e); err != nil {
			t.Fatal(err)
		}
		files, err := afero.ReadDir(fsys, filepath.Join(dir.Path, "worst"))
		var names []string
		for _, f := range files {
			names = append(names, f.Name())
		}
		if best := dir.bestEvaluation(fsys); err != nil || best.Step != tc.best || strings.Join(names, " ") != tc.pictures {
			t.Errorf("after step %d: %v, best %d, want %d; pictures %q, want %q", tc.e.Step, err, best.Step, tc.best, names, tc.pictures)
		}
	}
	alone := RunDir{Path: "/elsewhere"}
	if err := alone.ExportEvaluation(fsys, evaluation(1, 1, 1)); err != nil || alone.bestEvaluation(fsys) != nil {
		t.Error("an exported evaluation: ", err, alone.bestEvaluation(fsys))
	}
}
