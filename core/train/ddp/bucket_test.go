package ddp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/trainctl/trainctl/core/tensor"
)

func grads(shapes ...any) []Gradient {
	var g []Gradient
	for i := 0; i < len(shapes); i += 2 {
		g = append(g, Gradient{Name: shapes[i].(string), DType: tensor.F32, Shape: tensor.Shape{shapes[i+1].(int)}})
	}
	return g
}

func names(gs []Gradient, b Bucket) []string {
	var s []string
	for _, p := range b.Params {
		s = append(s, gs[p].Name)
	}
	return s
}

// The layouts that a communication hook of PyTorch 2.15 sees from step 2 on.
func TestAssignMatchesPyTorch(t *testing.T) {
	first, rest := Default().Caps()

	// pytorch/examples' MNIST net; conv gives weight first, linear bias first.
	net := grads("conv1.weight", 288, "conv1.bias", 32, "conv2.weight", 18432, "conv2.bias", 64,
		"fc1.weight", 1179648, "fc1.bias", 128, "fc2.weight", 1280, "fc2.bias", 10)
	got := Assign(net, []int{7, 6, 5, 4, 2, 3, 0, 1}, first, rest)
	if len(got) != 2 || got[0].Bytes != 4_724_264 || got[1].Bytes != 75_264 {
		t.Fatalf("MNIST net: %+v", got)
	}
	if d := cmp.Diff([]string{"fc2.bias", "fc2.weight", "fc1.bias", "fc1.weight"}, names(net, got[0])); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"conv2.weight", "conv2.bias", "conv1.weight", "conv1.bias"}, names(net, got[1])); d != "" {
		t.Error(d)
	}
	// find_unused_parameters, never rebuilt: buckets are made in definition order with both caps, then the list is reversed.
	got = Assign(net, []int{0, 1, 2, 3, 4, 5, 6, 7}, first, rest)
	if len(got) != 2 || got[1].Bytes != 5_672 || got[0].Bytes != 4_793_856 {
		t.Fatalf("MNIST net in definition order: %+v", got)
	}
}

// Every gradient is in one bucket, buckets hold one type, and all but the
// last of a type have reached their cap, without the last gradient not.
func TestAssignProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 30).Draw(t, "n")
		gs := make([]Gradient, n)
		for i := range gs {
			gs[i] = Gradient{Name: fmt.Sprint(i), DType: rapid.SampledFrom([]tensor.DType{tensor.F32, tensor.F16}).Draw(t, "dtype"),
				Shape: tensor.Shape{rapid.IntRange(1, 1000).Draw(t, "elems")}}
		}
		order := rapid.Permutation(seq(n)).Draw(t, "order")
		first, rest := rapid.IntRange(0, 2000).Draw(t, "first"), rapid.IntRange(0, 4000).Draw(t, "rest")
		buckets := Assign(gs, order, first, rest)

		seen := make([]int, n)
		perType := map[tensor.DType]int{}
		for i, b := range buckets {
			limit := rest
			if perType[b.DType] == 0 {
				limit = first
			}
			perType[b.DType]++
			sum, last := 0, 0
			for _, p := range b.Params {
				seen[p]++
				last = gs[p].Bytes()
				sum += last
				if gs[p].DType != b.DType {
					t.Fatalf("bucket %d of %v holds %v", i, b.DType, gs[p].DType)
				}
			}
			if sum != b.Bytes || sum-last >= limit && len(b.Params) > 1 {
				t.Fatalf("bucket %d: %d bytes recorded, %d counted, limit %d, last %d", i, b.Bytes, sum, limit, last)
			}
		}
		for p, k := range seen {
			if k != 1 {
				t.Fatalf("gradient %d is in %d buckets", p, k)
			}
		}
	})
}

func seq(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// Whatever the arrival order, buckets are launched once each, in order, and
// never before their last gradient.
func TestReadinessLaunchesInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		gs := make([]Gradient, n)
		all := make([]string, n)
		for i := range gs {
			all[i] = fmt.Sprint("p", i)
			gs[i] = Gradient{Name: all[i], DType: tensor.F32, Shape: tensor.Shape{1}}
		}
		buckets := Assign(gs, seq(n), 4*rapid.IntRange(1, 4).Draw(t, "first"), 4*rapid.IntRange(1, 6).Draw(t, "rest"))
		m := newReadiness(all, buckets)
		for range 2 { // reset gives a fresh machine
			launched, arrived := 0, map[int]bool{}
			for _, p := range rapid.Permutation(seq(n)).Draw(t, "arrival") {
				arrived[p] = true
				from, to := m.ready(p)
				if from != launched || to < from {
					t.Fatalf("launched %d..%d after %d", from, to, launched)
				}
				for ; launched < to; launched++ {
					for _, q := range buckets[launched].Params {
						if !arrived[q] {
							t.Fatalf("bucket %d launched before parameter %d", launched, q)
						}
					}
				}
			}
			if launched != len(buckets) || m.missing() != nil {
				t.Fatalf("%d of %d buckets launched, %v", launched, len(buckets), m.missing())
			}
			m.reset()
		}
	})
}

func TestReadinessNamesWhatIsMissing(t *testing.T) {
	gs := grads("a", 1, "b", 1, "c", 1)
	m := newReadiness([]string{"a", "b", "c"}, Assign(gs, []int{2, 1, 0}, 1<<20, 1<<20))
	m.ready(2)
	if err := m.missing(); err == nil || !strings.Contains(err.Error(), "2 parameters were complete: a, b") {
		t.Fatalf("got %v", err)
	}
	defer func() {
		if s := fmt.Sprint(recover()); !strings.Contains(s, "gradient of c was marked ready twice") {
			t.Fatalf("got %q", s)
		}
	}()
	m.ready(2)
}

func TestVerifyReplicasNamesTheFirstDifference(t *testing.T) {
	base := Replica{Build: "a", Config: []string{"run.seed = 1", "optimizer.lr = 0.1"}, State: []ReplicaItem{{"fc.weight", "f32", []int{2, 3}}, {"fc.bias", "f32", []int{2}}}}
	wider := base
	wider.State = append([]ReplicaItem(nil), base.State...)
	wider.State[1].Shape = []int{4}
	longer := base
	longer.State = append(append([]ReplicaItem(nil), base.State...), ReplicaItem{"extra.weight", "f32", []int{1}})
	other := base
	other.Dataset = "sha256:1"
	gpu := base
	gpu.Device = "cuda"
	cast := base
	cast.Policy = "O1"
	slower, more := base, base
	slower.Config = []string{"run.seed = 1", "optimizer.lr = 0.5"}
	more.Config = []string{"run.seed = 1", "optimizer.lr = 0.1", "train.epochs = 2"}
	for _, c := range []struct {
		last Replica
		want string
	}{
		{base, ""},
		{wider, "the first difference is fc.bias f32[2] on rank 0 and fc.bias f32[4] on rank 2"},
		{longer, "rank 0 has 2 parameters and buffers, rank 2 has 3; extra.weight f32[1] exists only on rank 2"},
		{other, "ranks read different data"},
		{cast, "the precision plugin answers ranks differently"},
		{gpu, "rank 2 on cuda"},
		{slower, "rank 0 has optimizer.lr = 0.1, rank 2 has optimizer.lr = 0.5"},
		{more, "rank 0 has no more settings, rank 2 has train.epochs = 2"},
	} {
		err := VerifyReplicas([][]byte{base.Encode(), base.Encode(), c.last.Encode()}, false)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
	if err := VerifyReplicas([][]byte{base.Encode(), []byte("{")}, false); err == nil {
		t.Error("garbage was accepted")
	}
}

// Ranks exchange digests as long as they agree, and whole replicas to name the first difference.
func TestAgree(t *testing.T) {
	rank := func(build, uuid, dataset string) Replica {
		return Replica{Build: build, GPU: GPU{uuid, "A100"}, Dataset: dataset, State: []ReplicaItem{{"fc.weight", "f32", []int{2, 3}}}}
	}
	for _, c := range []struct {
		last  Replica
		names []string
		want  string
	}{
		{rank("b", "GPU-2", "x"), []string{"replica"}, ""},
		{rank("a", "GPU-2", "y"), []string{"replica", "replica in full"}, "ranks read different data"},
		{rank("a", "GPU-1", "x"), []string{"replica"}, "ranks 1 and 2 would both compute on GPU-1"},
	} {
		ranks := []Replica{rank("a", "GPU-0", "x"), rank("a", "GPU-1", "x"), c.last}
		for r, own := range ranks {
			var names []string
			err := Agree(own, false, func(name string, mine []byte) (all [][]byte, err error) {
				names = append(names, name)
				for _, o := range ranks {
					b := o.Encode()
					if name == "replica" {
						b, err = json.Marshal(o.brief())
					}
					all = append(all, b)
				}
				if !bytes.Equal(mine, all[r]) {
					t.Errorf("rank %d sends %q", r, mine)
				}
				return all, err
			})
			if !slices.Equal(names, c.names) || c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("rank %d: %v, %v; want %q", r, names, err, c.want)
			}
		}
	}
}

func TestRanksHaveGPUsOfTheirOwn(t *testing.T) {
	on := func(uuid string) []byte { return Replica{Device: "cuda", GPU: GPU{uuid, "A100"}}.Encode() }
	ranks := [][]byte{on("GPU-1"), on("GPU-2"), on("GPU-2")}
	if err := VerifyReplicas(ranks, false); err == nil || !strings.Contains(err.Error(), "ranks 1 and 2 would both compute on GPU-2 (A100)") {
		t.Errorf("got %v", err)
	}
	for _, err := range []error{VerifyReplicas(ranks, true), VerifyReplicas(ranks[:2], false)} {
		if err != nil {
			t.Error(err)
		}
	}
}

// Every gradient lies where cuDNN writes it, none on another, and the gaps do
// not count: not for when a bucket is full, and not for what travels.
func TestGradientsAreAligned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		gs := make([]Gradient, n)
		sum := 0
		for i := range gs {
			gs[i] = Gradient{Name: fmt.Sprint(i), DType: rapid.SampledFrom([]tensor.DType{tensor.F32, tensor.F16, tensor.F64}).Draw(t, "dtype"),
				Shape: tensor.Shape{rapid.IntRange(1, 40).Draw(t, "elems")}}
			sum += gs[i].Bytes()
		}
		limit := rapid.IntRange(0, 400).Draw(t, "limit")
		buckets := Assign(gs, rapid.Permutation(seq(n)).Draw(t, "order"), limit, limit)
		regions, _ := Layout(buckets, 0)
		for b, bucket := range buckets {
			end := 0
			for i, p := range bucket.Params {
				if (regions[b].Offset+bucket.At[i])%GradientAlign != 0 || bucket.At[i] < end {
					t.Fatalf("bucket %d: gradient %d of %d bytes at %d, behind one that ends at %d", b, p, gs[p].Bytes(), bucket.At[i], end)
				}
				end = bucket.At[i] + gs[p].Bytes()
			}
			if end != bucket.span || regions[b].Size != end {
				t.Fatalf("bucket %d spans %d bytes in a region of %d and ends at %d", b, bucket.span, regions[b].Size, end)
			}
		}
		if got := (Config{}).BytesPerStep(gs, buckets); got != sum {
			t.Fatalf("%d bytes per step, the gradients have %d", got, sum)
		}
	})
}
