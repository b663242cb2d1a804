package outline

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// The buckets that a communication hook of PyTorch 2.15's
// DistributedDataParallel sees of a ResNet-18 from its second step on. Here the
// plan knows them before the first.
func TestOutlineOfResNet18HasPyTorchsBuckets(t *testing.T) {
	o := outlineOf(t, resnet18(), 2)
	type bucket struct {
		Params, Bytes int
		First, Last   string
	}
	var got []bucket
	for _, b := range o.Buckets {
		got = append(got, bucket{len(b.Params), b.Bytes, o.Gradients[b.Params[0]].Name, o.Gradients[b.Params[len(b.Params)-1]].Name})
	}
	want := []bucket{
		{5, 9_461_800, "fc.bias", "layer4.1.conv2.weight"},
		{15, 26_494_976, "layer4.1.bn1.weight", "layer3.1.conv2.weight"},
		{42, 8_739_072, "layer3.1.bn1.weight", "conv1.weight"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("buckets (-PyTorch +here):\n%s", diff)
	}
}

func resnet18() Settings {
	return Settings{Run: DefaultRun(), Train: DefaultTrain(), Sampler: data.Default(), DDP: ddp.Default(),
		Model: nn.Config{Name: "resnet18", Stem: nn.StemCIFAR}}
}

// outlineOf plans rank 0 of a job on CIFAR's shape.
func outlineOf(t *testing.T, s Settings, world int) *Outline {
	t.Helper()
	s.Train.PerRankBatch = 32
	spec := sdk.DatasetSpec{
		Input:  tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3, 32, 32}},
		Target: tensor.Spec{DType: tensor.I32}, Classes: 10, TrainSamples: 50_000, TestSamples: 10_000,
	}
	o, err := New(s, spec, nil, world, 0)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A data set with more tokens than the embedding has rows is refused before the first step.
func TestVocabularyFitsTheEmbedding(t *testing.T) {
	s := resnet18()
	s.Train.PerRankBatch = 2
	s.Model = nn.Config{Layers: []nn.LayerConfig{
		{Type: "embedding", Name: "wte", Args: op.Args{"num_embeddings": 65, "embedding_dim": 65}},
	}}
	row := tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{8}}
	spec := sdk.DatasetSpec{Input: row, Target: row, Vocabulary: 65, Classes: 65, TrainSamples: 10}
	if _, err := New(s, spec, nil, 1, 0); err != nil {
		t.Fatal(err)
	}
	spec.Vocabulary = 66
	want := `model: the embedding "wte" has 65 rows, but the data set has tokens from 0 to 65`
	if _, err := New(s, spec, nil, 1, 0); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}
