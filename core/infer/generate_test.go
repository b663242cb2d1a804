package infer

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trainctl/trainctl/core/base/tokenizer"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
)

// transformers' warpers keep these of the logits 2, 1, 0.5, 0, −1, 2.
func TestKeptTokensAsTransformers(t *testing.T) {
	logits := []float32{2, 1, 0.5, 0, -1, 2}
	for _, c := range []struct {
		s    Sampling
		want []int32
	}{
		{Sampling{Temperature: 1, TopK: 2, TopP: 1}, []int32{0, 5}},
		{Sampling{Temperature: 1, TopK: 1, TopP: 1}, []int32{0, 5}},
		{Sampling{Temperature: 1, TopP: 0.3}, []int32{5}},
		{Sampling{Temperature: 1, TopP: 0.5}, []int32{0, 5}},
		{Sampling{Temperature: 1, TopP: 0.8}, []int32{0, 1, 5}},
		{Sampling{Temperature: 1, TopP: 0.9}, []int32{0, 1, 2, 5}},
		{Sampling{Temperature: 1, TopP: 1}, []int32{0, 1, 2, 3, 4, 5}},
		{Sampling{Temperature: 0.7, TopK: 4, TopP: 0.8}, []int32{0, 5}},
	} {
		s := newSampler(c.s)
		var got []int32
		for _, k := range s.keep(logits) {
			got = append(got, k.token)
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%+v keeps %v, want %v", c.s, got, c.want)
		}
	}
}

// Tokens come as often as their probabilities say, and the same seed gives the same ones.
func TestDrawsFollowProbabilities(t *testing.T) {
	logits := []float32{0, float32(math.Log(2)), float32(math.NaN()), float32(math.Log(5)), float32(math.Inf(-1))}
	a, b := newSampler(Sampling{Temperature: 1, TopP: 1, Seed: 4}), newSampler(Sampling{Temperature: 1, TopP: 1, Seed: 4})
	var count [5]int
	const n = 20000
	for range n {
		token := a.Next(logits)
		if count[token]++; b.Next(logits) != token {
			t.Fatal("one seed gives two tokens")
		}
	}
	for i, p := range []float64{1. / 8, 2. / 8, 0, 5. / 8, 0} {
		if got := float64(count[i]) / n; math.Abs(got-p) > 5*math.Sqrt(p*(1-p)/n) {
			t.Errorf("token %d came with %v, want %v", i, got, p)
		}
	}
	if got := newSampler(Sampling{}).Next(logits); got != 3 {
		t.Errorf("the likeliest token is %d, want 3", got)
	}
}

// Text comes in whole characters and without the beginning of a stop text, and is that of all tokens.
func TestTextComesInWholeCharacters(t *testing.T) {
	const text = "naïve — 数据, and\nthen \xff\xf0\x9f stop\nright here"
	for _, c := range []struct {
		stops []string
		want  string
	}{
		{nil, "naïve — 数据, and\nthen \uFFFD\uFFFD stop\nright here"},
		{[]string{"stop\nleft"}, "naïve — 数据, and\nthen \uFFFD\uFFFD stop\nright here"},
		{[]string{"zzz", "stop\nri"}, "naïve — 数据, and\nthen \uFFFD\uFFFD "},
		{[]string{"据"}, "naïve — 数"},
	} {
		s := stream{tokenizer: tokenizer.Bytes{}, stops: c.stops}
		var got strings.Builder
		stopped := false
		for i := 0; i < len(text) && !stopped; i++ {
			var part string
			part, stopped = s.add(int32(text[i]))
			if got.WriteString(part); !utf8.ValidString(part) {
				t.Errorf("%q is cut in a character", part)
			}
		}
		if !stopped {
			got.WriteString(s.end())
		}
		if have := strings.ReplaceAll(got.String(), "\uFFFD\uFFFD\uFFFD", "\uFFFD\uFFFD"); have != c.want {
			t.Errorf("%q, want %q", have, c.want)
		}
	}
}

// letters is a tokenizer of 19 characters, of which the last ends a text.
type letters struct{ *tokenizer.Chars }

func (letters) Special(token int32) bool { return token == 18 }

func generated(t *testing.T, ctx context.Context, g Generation) (string, Generated, error) {
	t.Helper()
	chars, err := tokenizer.NewChars(strings.Split("abcdefghijklmnopqrs", ""))
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDecoder(loaded(t, nn.Config{Name: "gpt2", Args: op.Args{"n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 8}}, texts(8)), 1)
	if err != nil {
		t.Fatal(err)
	}
	var w strings.Builder
	done, err := Generate(ctx, d, letters{chars}, g, &w)
	return w.String(), done, err
}

func TestGenerationEnds(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	sample := Sampling{Temperature: 1, TopP: 1, Seed: 3}
	long, done, err := generated(t, t.Context(), Generation{Sampling: sample, Prompt: "abc", Most: 5})
	if err != nil || done.Reason != Enough || done.Prompt != 3 || done.Tokens != 5 || len(long) != 5 {
		t.Fatalf("%q, %+v, %v", long, done, err)
	}
	for _, c := range []struct {
		ctx    context.Context
		g      Generation
		tokens int
		reason Reason
	}{
		{t.Context(), Generation{Sampling: sample, Prompt: "abc", Most: 50}, 6, Full},
		{t.Context(), Generation{Sampling: sample, Prompt: "abc", Most: 50, Stops: []string{long[2:4]}}, 4, Stopped},
		{ended, Generation{Sampling: sample, Prompt: "abc", Most: 50}, 0, Broken},
		{t.Context(), Generation{Sampling: Sampling{Temperature: 1, TopP: 1, Seed: 5}, Prompt: "abcabcabcabc", Most: 2000, Slide: true}, -1, Ended},
	} {
		text, done, err := generated(t, c.ctx, c.g)
		if err != nil || done.Reason != c.reason || c.tokens >= 0 && done.Tokens != c.tokens {
			t.Errorf("%+v: %q, %+v, %v", c.g, text, done, err)
		}
		if c.reason == Full && text[:5] != long || c.reason == Stopped && text != long[:2] || c.reason == Ended && len(text) < 9 {
			t.Errorf("%q, before %q", text, long)
		}
	}
	for prompt, want := range map[string]string{"": "the prompt is empty", "ABC": "not in the vocabulary", "abcabcabc": "the prompt has 9 tokens, and the model's context is 8"} {
		if _, _, err := generated(t, t.Context(), Generation{Sampling: sample, Prompt: prompt, Most: 5}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", prompt, err)
		}
	}
}
