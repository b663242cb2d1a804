package cifar10

import (
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/tensor"
)

// Training images are cropped and mirrored, by sample and epoch; those of the test set, and held out ones, are not.
func TestStandardAugmentation(t *testing.T) {
	d := newDataset(unpacked(t, "/r"), "")
	if _, err := open(t, d, map[string]any{"augment": "standard"}); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for epoch := range 40 {
		x, _ := fillOne(t, d, sdk.Train, epoch, 3)
		seen[string(tensor.Bytes(x))] = true
		y, _ := fillOne(t, d, sdk.Test, epoch, 3)
		test, _ := d.splits[sdk.Test].sample(3, nil)
		for i, want := range test {
			if y[i] != float32(want)/255 {
				t.Fatalf("the test set is augmented: element %d is %v", i, y[i])
			}
		}
	}
	if len(seen) < 30 {
		t.Errorf("an image looks the same in %d of 40 epochs", 40-len(seen))
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
	d.Small = s.images(d.splits)
	d.Crop = true
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
