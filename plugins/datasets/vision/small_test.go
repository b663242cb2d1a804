package vision

import (
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/kernel/image"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// shown is what a view shows at (x, y) of a plane, pixel by pixel.
func shown(v view, in []byte, side, x, y int) byte {
	if v.flip {
		x = side - 1 - x
	}
	x, y = x+v.x-border, y+v.y-border
	if x < 0 || x >= side || y < 0 || y >= side {
		return 0
	}
	return in[y*side+x]
}

// Every crop, mirrored or not, against the plain definition, with rows of whole and of broken words.
func TestViews(t *testing.T) {
	for _, side := range []int{8, 28, 29, 32} {
		in, out := make([]byte, side*side), make([]byte, side*side)
		for i := range in {
			in[i] = byte(i*7 + i/side)
		}
		for k := range 2 * (2*border + 1) * (2*border + 1) {
			v := view{x: k / 2 % (2*border + 1), y: k / 2 / (2*border + 1), flip: k%2 == 1}
			v.cut(out, in, side)
			for i, got := range out {
				if want := shown(v, in, side, i%side, i/side); got != want {
					t.Fatalf("side %d, %+v: pixel %d is %v, want %v", side, v, i, got, want)
				}
			}
		}
	}
}

// All crops are drawn, and mirrored ones where they are asked for.
func TestRandomViews(t *testing.T) {
	for flip, want := range map[bool]int{false: 81, true: 162} {
		seen := map[view]bool{}
		for i := range int64(4000) {
			seen[randomView(flip, 5, int(i%3), i)] = true
		}
		if len(seen) != want {
			t.Errorf("flip = %v: %d of %d views were drawn", flip, len(seen), want)
		}
	}
}

// grey is a store of images of one level each, 10·index, of class index.
type grey struct{ n, size int }

func (g grey) Samples(sdk.Split) int { return g.n }

func (g grey) Sample(_ sdk.Split, index int, room []byte) ([]byte, int32) {
	for i := range g.size {
		room[i] = byte(10 * index)
	}
	return room, int32(index)
}

// With samples held out, training images are mixed with others that are trained on alone, and
// held-out images with none.
func TestMixingSparesHeldOutSamples(t *testing.T) {
	for _, key := range []string{"mixup", "cutmix"} {
		a, _ := parse(t, map[string]any{key: 1.0})
		s := &Small{Name: "grey", Store: grey{10, 36}, Side: 6, Levels: []*image.Levels{image.NewLevels(0, 1)}, Classes: 10, More: a}
		classes := make([]int32, 10)
		for i := range classes {
			classes[i] = int32(i % 2)
		}
		var err error
		if s.Partners, err = a.Partners(sdk.DatasetRequest{HeldOut: 0.4, Seed: 3}, classes); err != nil || len(s.Partners) != 6 {
			t.Fatal(s.Partners, err)
		}
		b := &sdk.Batch{Seed: 9, Indices: s.Partners, Input: tensor.Aligned(6 * 36 * 4), Target: tensor.Aligned(6 * 10 * 4)}
		mixed := map[int]bool{}
		for b.Epoch = range 30 {
			if err := s.Fill(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			for i, p := range tensor.View[float32](b.Target) {
				if class := i % 10; p != 0 {
					if !slices.Contains(s.Partners, int64(class)) {
						t.Fatalf("%s: the held-out sample %d is mixed into sample %d", key, class, b.Indices[i/10])
					}
					mixed[class] = mixed[class] || int64(class) != b.Indices[i/10]
				}
			}
		}
		if len(mixed) != 6 {
			t.Errorf("%s: partners are %v", key, mixed)
		}
		b.NoAugment, b.Indices, b.Input, b.Target = true, []int64{4}, b.Input[:36*4], b.Target[:40]
		if err := s.Fill(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if x, p := tensor.View[float32](b.Input), tensor.View[float32](b.Target); x[0] != float32(40)/255 || p[4] != 1 {
			t.Errorf("%s: a sample that is evaluated is %v with the target %v", key, x[0], p)
		}
	}
}

// Grey images have neither saturation nor hue.
func TestGreyJitter(t *testing.T) {
	for _, c := range []struct {
		jitter []any
		wrong  int
	}{{[]any{0.4, 0.4, 0.0, 0.0}, 0}, {[]any{0.4, 0.4, 0.4, 0.0}, 1}, {[]any{0.0, 0.0, 0.0, 0.1}, 1}} {
		a, l := parse(t, map[string]any{"color_jitter": c.jitter})
		if a.CheckGrey(&l); len(l) != c.wrong || c.wrong > 0 && usererr.Problems(l.Err())[0].Key != "color_jitter" {
			t.Errorf("%v: %v", c.jitter, l)
		}
	}
}
