package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// droppingGPT train a GPT-2 with everything that draws, keeps state or is tied.
var droppingGPT = strings.Replace(textTables, textTables[strings.Index(textTables, "[model]"):strings.Index(textTables, "[optimizer]")], `[model]
name = "gpt2"
n_layer = 2
n_head = 2
n_embd = 16
n_positions = 8
vocab_size = 24
embd_pdrop = 0.1
attn_pdrop = 0.2
resid_pdrop = 0.1
`, 1)

// A GPT-2 that continues from a checkpoint ends with the bits of the run that was not interrupted:
// dropout of embeddings, attention weights and residuals, and the weight that two layers share.
func TestResumeOfGPT2IsExact(t *testing.T) {
	t.Parallel()
	p, _ := placeWithText(t, "")
	p.Configure(t, droppingGPT)
	whole := p.Run(t)
	last := len(whole.Steps)
	for _, k := range []int{1, last / 2, last - 1} {
		r := p.Run(t, "--resume", whole.Checkpoint(k))
		r.Continues(t, whole, k)
	}
}

// Text comes from a trained run with its tokenizer; the same seed gives the same text.
func TestGenerate(t *testing.T) {
	t.Parallel()
	p, corpus := placeWithText(t, "")
	p.Configure(t, droppingGPT)
	r := p.Run(t, rig.Set("train.epochs=20", "optimizer.lr=0.01")...)
	generate := func(code int, args ...string) rig.Result {
		return p.Trainctl(t, append([]string{"generate", p.Config, "--checkpoint", r.Dir}, args...)...).Expect(t, code)
	}
	first := generate(0, "--prompt", "the ", "--max-tokens", "40", "--slide", "--seed", "7")
	if again := generate(0, "--prompt", "the ", "--max-tokens", "40", "--slide", "--seed", "7"); again.Stdout != first.Stdout || len(first.Stdout) != 41 {
		t.Errorf("%q, then %q", first.Stdout, again.Stdout)
	}
	if other := generate(0, "--prompt", "the ", "--max-tokens", "40", "--slide", "--seed", "8"); other.Stdout == first.Stdout {
		t.Errorf("another seed gives the same text %q", other.Stdout)
	}
	if likely := generate(0, "--prompt", "the rank", "--max-tokens", "1", "--temperature", "0", "--slide").Stdout; !strings.Contains(corpus, "the rank"+strings.TrimSuffix(likely, "\n")) {
		t.Errorf("%q is not in the corpus behind its prompt", likely)
	}
	full := generate(0, "--prompt", "the ", "--max-tokens", "40")
	if len(full.Stdout) != 6 {
		t.Errorf("%q, want what the context of 8 has room for, one more, and a new line", full.Stdout)
	}
	full.Prints(t, "ended: the model's context is full; fix: shorten the prompt, or use --slide")
	generate(2, "--prompt", "Ж").Prints(t, "the character 'Ж' (U+0416) at byte 0 is not in the vocabulary")
	generate(2, "--prompt", "the ranks read").Prints(t, "the prompt has 14 tokens, and the model's context is 8", "--slide")
	generate(2).Prints(t, "give --prompt TEXT or --prompt-file FILE")
	generate(2, "--prompt-file", filepath.Join(p.Dir, "none")).Prints(t, "--prompt-file:")
	generate(2, "--prompt", "a", "--top-p", "0").Prints(t, "--top-p 0 is not above 0 and up to 1")
}

const picturesTables = `
[dataset]
plugin = "imagefolder"
[dataset.options]
root = "pictures"
train = "train"
val = "val"
size = 16
resize = 18
[train]
epochs = 3
per_rank_batch = 8
[model]
layers = [
  { type = "conv2d", out_channels = 4, kernel_size = 3 },
  { type = "batchnorm2d" },
  { type = "relu" },
  { type = "flatten" },
  { type = "linear", out_features = 3 },
]
[optimizer]
name = "sgd"
lr = 0.01
`

// paint writes a PNG or JPEG with noise, brighter for later classes.
func paint(t *testing.T, path string, class int, r *rand.Rand) {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, 20+r.IntN(10), 20+r.IntN(10)))
	for i := range img.Pix {
		img.Pix[i] = byte(40*class + r.IntN(140))
		if i%4 == 3 {
			img.Pix[i] = 255
		}
	}
	f, err := os.Create(path)
	rig.Must(t, err)
	if filepath.Ext(path) == ".jpg" {
		err = jpeg.Encode(f, img, nil)
	} else {
		err = png.Encode(f, img)
	}
	rig.Must(t, errors.Join(err, f.Close()))
}

// Predictions of the images of a test split are as often right as `trainctl eval` says, with its
// transform, whatever the batch. A broken image is named, and the others go on.
func TestPredictAsEvaluated(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, picturesTables)
	r := rand.New(rand.NewPCG(1, 2))
	const each = 11
	for _, split := range []string{"train", "val"} {
		for class, name := range []string{"ant", "bee", "cat"} {
			dir := filepath.Join(p.Dir, "pictures", split, name)
			rig.Must(t, os.MkdirAll(dir, 0o755))
			for i := range each {
				paint(t, filepath.Join(dir, fmt.Sprintf("%02d%s", i, []string{".png", ".jpg"}[i%2])), class, r)
			}
		}
	}
	trained := p.Run(t, "--nproc-per-node", "1")
	var e rig.Evaluation
	rig.Must(t, json.Unmarshal([]byte(p.Trainctl(t, "eval", p.Config, "--checkpoint", trained.Dir, "--json").Expect(t, 0).Stdout), &e))
	val := filepath.Join(p.Dir, "pictures", "val")
	predict := func(code int, args ...string) rig.Result {
		return p.Trainctl(t, append([]string{"predict", p.Config, val, "--checkpoint", trained.Dir}, args...)...).Expect(t, code)
	}
	first := predict(0, "--json", "--top-k", "2", "--batch", "7")
	if one := predict(0, "--json", "--top-k", "2", "--batch", "1"); one.Stdout != first.Stdout {
		t.Errorf("batches of 7 give\n%s\nand of 1\n%s", first.Stdout, one.Stdout)
	}
	right := 0
	for line := range strings.Lines(first.Stdout) {
		var got struct {
			Path string
			Top  []struct {
				Name        string
				Probability float64
			}
		}
		rig.Must(t, json.Unmarshal([]byte(line), &got))
		if len(got.Top) != 2 || got.Top[0].Probability < got.Top[1].Probability {
			t.Errorf("%s", line)
		}
		if filepath.Base(filepath.Dir(got.Path)) == got.Top[0].Name {
			right++
		}
	}
	if accuracy := float64(right) / (3 * each); math.Abs(accuracy-e.Accuracy) > 1e-9 || e.Samples != 3*each {
		t.Errorf("%v of %d are right, evaluation says %v of %d", accuracy, 3*each, e.Accuracy, e.Samples)
	}
	rig.Must(t, os.WriteFile(filepath.Join(val, "bee", "05.jpg"), []byte("\xff\xd8\xff broken"), 0o644))
	broken := predict(1)
	broken.Prints(t, filepath.Join(val, "bee", "05.jpg")+": ", "1 of 33 files cannot be used")
	if lines := strings.Count(broken.Stdout, "\n"); lines != 3*each-1 {
		t.Errorf("%d predictions, want %d", lines, 3*each-1)
	}
}

const flowerTables = `
[launch]
nproc_per_node = 1
[dataset]
plugin = "csv"
[dataset.options]
train = "flowers.csv"
test = "flowers.csv"
targets = ["kind"]
normalize = "standard"
[train]
epochs = 4
per_rank_batch = 8
[model]
name = "mlp"
hidden = [8]
[optimizer]
name = "sgd"
lr = 0.1
ema_decay = 0.9
`

// Predictions for the lines of a table are those that evaluation counts, with the last weights and with
// their moving averages, and need no column of targets.
func TestPredictTable(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, flowerTables)
	r := rand.New(rand.NewPCG(3, 4))
	lines, kinds := []string{"length,width,kind"}, []string{}
	for range 40 {
		i := r.IntN(3)
		kinds = append(kinds, []string{"iris", "rose", "tulip"}[i])
		lines = append(lines, fmt.Sprintf("%.3f,%.3f,%s", 3+float64(i)+r.NormFloat64(), 5-float64(i)+r.NormFloat64(), kinds[len(kinds)-1]))
	}
	table, bare := filepath.Join(p.Dir, "flowers.csv"), filepath.Join(p.Dir, "new.csv")
	rig.Must(t, os.WriteFile(table, []byte(strings.Join(lines, "\n")), 0o644))
	for i, line := range lines {
		cells := strings.Split(line, ",")
		lines[i] = cells[1] + "," + cells[0]
	}
	rig.Must(t, os.WriteFile(bare, []byte(strings.Join(lines, "\n")), 0o644))
	trained := p.Run(t)
	losses := map[float64]bool{}
	for _, args := range [][]string{nil, {"--ema"}} {
		var e rig.Evaluation
		rig.Must(t, json.Unmarshal([]byte(p.Trainctl(t, append([]string{"eval", p.Config, "--checkpoint", trained.Dir, "--json"}, args...)...).Expect(t, 0).Stdout), &e))
		losses[e.Loss] = true
		got := p.Trainctl(t, append([]string{"predict", p.Config, bare, "--checkpoint", trained.Dir}, args...)...).Expect(t, 0).Stdout
		if labelled := p.Trainctl(t, append([]string{"predict", p.Config, table, "--checkpoint", trained.Dir}, args...)...).Expect(t, 0).Stdout; strings.ReplaceAll(labelled, table, bare) != got {
			t.Errorf("with labels\n%s\nand without\n%s", labelled, got)
		}
		right := 0
		for i, line := range strings.Split(strings.TrimSpace(got), "\n") {
			if strings.HasPrefix(strings.Split(line, "\t")[1], kinds[i]+" ") {
				right++
			}
		}
		if accuracy := float64(right) / float64(len(kinds)); math.Abs(accuracy-e.Accuracy) > 1e-9 {
			t.Errorf("%v: %v are right, evaluation says %v", args, accuracy, e.Accuracy)
		}
	}
	text, err := os.ReadFile(table)
	rig.Must(t, err)
	rig.Must(t, os.WriteFile(table, []byte(strings.ReplaceAll(string(text), "iris", "aster")), 0o644))
	if got := p.Trainctl(t, "predict", p.Config, bare, "--checkpoint", trained.Dir, "--ema").Expect(t, 0).Stdout; !strings.Contains(got, "iris") || strings.Contains(got, "aster") {
		t.Errorf("classes have other names than in training:\n%s", got)
	}
	if len(losses) != 2 {
		t.Errorf("the averages have the loss of the last weights: %v", losses)
	}
	p.Trainctl(t, "predict", p.Config, bare, "--checkpoint", filepath.Join(trained.Checkpoint(len(trained.Steps)), "model.safetensors"), "--ema").Expect(t, 2).Prints(t, "has no moving averages of weights")
}
