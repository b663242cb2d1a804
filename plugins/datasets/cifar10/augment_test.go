package cifar10

import (
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/tensor"
)

// at is what a view shows at (x, y) of a channel, pixel by pixel.
func at(v view, image []byte, c, x, y int) float32 {
	if v.flip {
		x = side - 1 - x
	}
	x, y = x+v.x-pad, y+v.y-pad
	if x < 0 || x >= side || y < 0 || y >= side {
		return 0
	}
	return float32(image[(c*side+y)*side+x]) / 255
}

// Every crop, mirrored or not, against the plain definition.
func TestViews(t *testing.T) {
	d := newDataset(unpacked(t, "/r"), "")
	if _, err := open(t, d, nil); err != nil {
		t.Fatal(err)
	}
	image, _ := d.splits[sdk.Train].sample(3, nil)
	out := make([]float32, imageBytes)
	for k := range 2 * (2*pad + 1) * (2*pad + 1) {
		v := view{x: k / 2 % (2*pad + 1), y: k / 2 / (2*pad + 1), flip: k%2 == 1}
		v.write(out, image, d.levels)
		for i, got := range out {
			if want := at(v, image, i/(side*side), i%side, i/side%side); got != want {
				t.Fatalf("%+v: element %d is %v, want %v", v, i, got, want)
			}
		}
	}
}

// Training sees all views, by sample and epoch; the test set is never augmented.
func TestStandardAugmentation(t *testing.T) {
	d := newDataset(unpacked(t, "/r"), "")
	if _, err := open(t, d, map[string]any{"augment": "standard"}); err != nil {
		t.Fatal(err)
	}
	count := map[view]int{}
	for epoch := range 100 {
		for index := range int64(5 * small) {
			count[randomView(5, epoch, index)]++
		}
	}
	if len(count) != 2*9*9 {
		t.Errorf("%d of 162 views were drawn", len(count))
	}
	image, _ := d.splits[sdk.Train].sample(3, nil)
	for epoch := range 4 {
		v := randomView(5, epoch, 3)
		x, _ := fillOne(t, d, sdk.Train, epoch, 3)
		if got, want := x[40], at(v, image, 0, 40%side, 40/side); got != want {
			t.Errorf("epoch %d: %v, want %v", epoch, got, want)
		}
		y, _ := fillOne(t, d, sdk.Test, epoch, 3)
		test, _ := d.splits[sdk.Test].sample(3, nil)
		if y[0] != float32(test[0])/255 {
			t.Error("the test set is augmented")
		}
	}
}

func TestNormalises(t *testing.T) {
	d := newDataset(unpacked(t, "/r"), "")
	if _, err := open(t, d, map[string]any{"mean": []any{0.5, 0.25, 0.0}, "std": []any{0.25, 0.5, 1.0}}); err != nil {
		t.Fatal(err)
	}
	x, _ := fillOne(t, d, sdk.Train, 0, 0)
	for c, want := range []float32{(0 - 0.5) / 0.25, (0 - 0.25) / 0.5, 0} { // byte 1024c of record 0 is 0
		if x[c*side*side] != want {
			t.Errorf("channel %d: %v, want %v", c, x[c*side*side], want)
		}
	}
}

func BenchmarkFill(b *testing.B) {
	d := New(nil)
	d.splits[sdk.Train] = &split{n: 1000, records: make([]byte, 1000*recordBytes)}
	s, _ := parseSettings(sdk.Options{"root": "/r"})
	d.levels, d.augment = s.norm.Levels(), true
	batch := sdk.Batch{Indices: make([]int64, 100), Input: make([]byte, 100*4*imageBytes), Target: make([]byte, 400)}
	for i := range batch.Indices {
		batch.Indices[i] = int64(i * 7)
	}
	b.SetBytes(int64(len(batch.Input)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Fill(b.Context(), &batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAugmented reads training images with each augmentation.
func BenchmarkAugmented(b *testing.B) {
	fs := unpacked(b, "/r")
	for name, table := range map[string]map[string]any{
		"standard":    {},
		"randaugment": {"randaugment": 2},
		"jitter":      {"color_jitter": []any{0.4, 0.4, 0.4, 0.1}},
		"erasing":     {"random_erasing": 0.25},
		"mixup":       {"mixup": 0.2},
		"everything":  {"randaugment": 2, "color_jitter": []any{0.4, 0.4, 0.4, 0.1}, "random_erasing": 0.25, "mixup": 0.2, "cutmix": 1.0},
	} {
		b.Run(name, func(b *testing.B) {
			d := newDataset(fs, "")
			table["root"], table["augment"] = "/r", "standard"
			spec, err := sdktest.OpenDataset(b, d, table, nil)
			if err != nil {
				b.Fatal(err)
			}
			batch := &sdk.Batch{Indices: []int64{0}, Input: tensor.Aligned(spec.Input.Bytes()), Target: tensor.Aligned(spec.Target.Bytes())}
			for i := 0; b.Loop(); i++ {
				batch.Epoch = i
				if err := d.Fill(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "samples/s")
		})
	}
}
