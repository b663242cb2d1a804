package e2e

import (
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
	whole := p.run(t)
	last := len(whole.steps)
	for _, k := range []int{1, last / 2, last - 1} {
		r := p.run(t, "--resume", whole.checkpoint(k))
		r.continues(t, whole, k)
	}
}

// Text comes from a trained run with its tokenizer; the same seed gives the same text.
func TestGenerate(t *testing.T) {
	t.Parallel()
	p, corpus := placeWithText(t, "")
	p.Configure(t, droppingGPT)
	r := p.run(t, rig.Set("train.epochs=20", "optimizer.lr=0.01")...)
	generate := func(code int, args ...string) rig.Result {
		return p.Trainctl(t, append([]string{"generate", p.Config, "--checkpoint", r.dir}, args...)...).Expect(t, code)
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
	full.Prints(t, "ended: the model's context is full; fix: a shorter prompt, or --slide")
	generate(2, "--prompt", "Ж").Prints(t, "the character 'Ж' (U+0416) at byte 0 is not in the vocabulary")
	generate(2, "--prompt", "the ranks read").Prints(t, "the prompt has 14 tokens, and the model's context is 8", "--slide")
	generate(2).Prints(t, "give --prompt TEXT or --prompt-file FILE")
	generate(2, "--prompt-file", filepath.Join(p.Dir, "none")).Prints(t, "--prompt-file:")
	generate(2, "--prompt", "a", "--top-p", "0").Prints(t, "--top-p 0 is not above 0 and up to 1")
}
