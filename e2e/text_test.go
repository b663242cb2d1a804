package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/e2e/rig"
)

// A bigram model: a token's row of the table, through a linear layer, is the logits of the next.
const textTables = `
[launch]
nproc_per_node = 2
[dataset]
plugin = "text"
[dataset.options]
files = ["corpus"]
tokenizer = "chars"
context = 8
validation = 0.2
[train]
epochs = 2
per_rank_batch = 4
eval_batch = 3
[model]
layers = [
  { name = "wte", type = "embedding", num_embeddings = 20, embedding_dim = 6 },
  { name = "head", type = "linear", out_features = 20 },
]
[optimizer]
name = "adamw"
lr = 0.05
[checkpoint]
every = "1 step"
keep = 0
[metrics]
tensorboard = false
`

// placeWithText has a corpus of two files, with 20 characters in all.
func placeWithText(t *testing.T, more string) (p *rig.Place, corpus string) {
	t.Helper()
	p = rig.PlaceWith(t, textTables+more)
	dir := filepath.Join(p.Dir, "corpus")
	rig.Must(t, os.Mkdir(dir, 0o755))
	for name, text := range map[string]string{
		"1.txt": strings.Repeat("the ranks read the text and add it up.\n", 12),
		"2.txt": strings.Repeat("each waits for those that read on.\n", 10),
	} {
		rig.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return p, strings.Repeat("the ranks read the text and add it up.\n", 12) + strings.Repeat("each waits for those that read on.\n", 10)
}

// characters are those of a text, as the vocabulary has them.
func characters(text string) (names []string) {
	for _, r := range text {
		if !slices.Contains(names, string(r)) {
			names = append(names, string(r))
		}
	}
	slices.Sort(names)
	return names
}

// A model of tokens learns on two ranks. Every window is read as often as the sampler says,
// and every token of the validation text is evaluated once, on whatever ranks.
func TestTextTrains(t *testing.T) {
	t.Parallel()
	p, corpus := placeWithText(t, "")
	names := characters(corpus)
	if len(names) != 20 {
		t.Fatalf("the corpus has %d characters", len(names))
	}
	cut := int(float64(len(corpus)) * 0.8)
	windows, tests := (cut-1)/8, (len(corpus)-cut-1)/8
	whole := p.Run(t)
	perEpoch := 2 * ((windows + 1) / 2) // padded to both ranks
	samples, tokens := 0, 0
	for _, s := range whole.Steps {
		samples, tokens = samples+s.Samples, tokens+s.Tokens
	}
	if samples != 2*perEpoch || tokens != 8*samples {
		t.Errorf("%d samples and %d tokens of 2 epochs with %d windows", samples, tokens, windows)
	}
	first, last := whole.Losses()[0], whole.Losses()[len(whole.Steps)-1]
	if math.Abs(first-math.Log(20)) > 1 || !(last < first-0.5) {
		t.Errorf("the loss goes from %v to %v", first, last)
	}
	e := whole.Evals[1]
	if e.Samples != tests || e.Tokens != 8*tests || e.Perplexity != math.Exp(e.Loss) || math.Abs(e.BitsPerByte-e.Loss/math.Ln2) > 1e-12 {
		t.Errorf("evaluation %+v of %d windows", e, tests)
	}
	s := whole.Summary
	if float64(s.Eval.Perplexity) != e.Perplexity || s.Train.TokensPerSec != 8*s.Train.SamplesPerSec || !slices.Equal(s.Dataset.Classes, names) {
		t.Errorf("summary %+v, %+v, classes %q", s.Train, s.Eval, s.Dataset.Classes)
	}
	snap, _, err := checkpoint.Load(t.Context(), checkpoint.OsFS(), whole.Checkpoint(len(whole.Steps)))
	rig.Must(t, err)
	if !slices.Equal(snap.Dataset.Classes, names) {
		t.Errorf("the checkpoint has the characters %q", snap.Dataset.Classes)
	}
	for _, ranks := range []string{"1", "3"} {
		again := p.Run(t, rig.Set("launch.nproc_per_node="+ranks, "train.epochs=1", "train.max_steps=1", "optimizer.lr=0.0", fmt.Sprintf("model.init=%q", whole.Checkpoint(len(whole.Steps))))...)
		if got := again.Evals[len(again.Evals)-1]; got.Tokens != e.Tokens || got.Accuracy != e.Accuracy || math.Abs(got.Loss-e.Loss) > 1e-9 {
			t.Errorf("on %s ranks the evaluation is %+v, want %+v", ranks, got, e)
		}
	}
}

// A run on text continues from any step with the bits of the run that was not interrupted.
func TestTextResumesExactly(t *testing.T) {
	t.Parallel()
	p, _ := placeWithText(t, "")
	whole := p.Run(t)
	for _, k := range []int{1, 5, len(whole.Steps) / 2, len(whole.Steps) - 1} {
		p.Run(t, "--resume", whole.Checkpoint(k)).Continues(t, whole, k)
	}
	r := p.Train(t, append(rig.Set("dataset.options.context=9"), "--resume", whole.Checkpoint(5))...)
	if r.Code == 0 {
		t.Error("a resume with windows of another length was not refused")
	}
}

// Without shuffling, steps take windows as a DistributedSampler gives them, and losses are
// those of a bigram model that is trained here, in float64.
func TestTextFollowsTheFormula(t *testing.T) {
	t.Parallel()
	p, corpus := placeWithText(t, "[sampler]\nshuffle = false\n")
	const lr, batch, ranks, steps = 0.5, 4, 2, 12
	got := p.Run(t, rig.Set(`optimizer={name="sgd",lr=0.5}`, `model.layers=[{name="wte",type="embedding",num_embeddings=20,embedding_dim=20}]`,
		"dataset.options.validation=0.0", "train.epochs=1", "train.max_steps=12")...)
	w := got.Weights(t, 1)["wte.weight"]
	names := characters(corpus)
	var tokens []int
	for _, r := range corpus {
		tokens = append(tokens, slices.Index(names, string(r)))
	}
	for step := 1; step < steps; step++ {
		grad, loss, n := make([]float64, len(w)), 0.0, 0
		for i := range batch * ranks { // of all ranks: rank r has i*ranks + r
			at := 8 * (step*batch*ranks + i)
			for k := at; k < at+8; k++ {
				row := w[20*tokens[k] : 20*tokens[k]+20]
				sum := 0.0
				for _, v := range row {
					sum += math.Exp(v)
				}
				loss += math.Log(sum) - row[tokens[k+1]]
				n++
				for c, v := range row {
					grad[20*tokens[k]+c] += math.Exp(v) / sum
				}
				grad[20*tokens[k]+tokens[k+1]]--
			}
		}
		if loss /= float64(n); math.Abs(got.Steps[step].LossMean-loss) > 2e-6*loss {
			t.Fatalf("step %d: loss %v, want %v", step+1, got.Steps[step].LossMean, loss)
		}
		for i := range w {
			w[i] -= lr * grad[i] / float64(n)
		}
	}
}

// What cannot be trained is refused before the first step.
func TestTextMistakes(t *testing.T) {
	t.Parallel()
	p, _ := placeWithText(t, "")
	for _, c := range []struct{ set, want string }{
		{`dataset.options.tokenizer="bytes"`, "the model gives [8, 20], but the data set needs [8, 256], a row for each of its targets"},
		{`model.layers=[{name="wte",type="embedding",num_embeddings=19,embedding_dim=6},{type="linear",out_features=20}]`, `the embedding "wte" has 19 rows, but the data set has tokens from 0 to 19`},
		{"dataset.options.context=1000", "a sample needs 1001 tokens, context and one, but there are only 654 to train on"},
		{`dataset.options.files=["nowhere"]`, `there is no file at "nowhere"`},
		{`model.layers=[{type="linear",out_features=20}]`, "linear"},
	} {
		r := p.Train(t, append(rig.Set(c.set), "--progress", "none")...)
		r.Expect(t, 2)
		if !strings.Contains(r.Stderr, c.want) && !strings.Contains(strings.Join(strings.Fields(r.Stderr), " "), c.want) {
			t.Errorf("%s: %s\nwant %s", c.set, r.Stderr, c.want)
		}
	}
	r := p.Train(t, append(rig.Set("dataset.options.files=[]", "dataset.options.validation=0.0", "train.max_steps=1", `dataset.options.tokenizer="bytes"`,
		`model.layers=[{type="embedding",num_embeddings=256,embedding_dim=256}]`), "--progress", "plain")...)
	r.Expect(t, 0).Prints(t, "TRAINING ON GENERATED SENTENCES", "tokens/s")
}
