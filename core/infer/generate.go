package infer

import (
	"context"
	"io"
	"time"

	"github.com/trainctl/trainctl/core/base/tokenizer"
	"github.com/trainctl/trainctl/core/base/usererr"
)

// Generation says what text to generate.
type Generation struct {
	Sampling
	Prompt string
	Most   int      // tokens to generate
	Stops  []string // texts that end it, and are left out
	Slide  bool     // when the context is full, continue with its second half
}

// Reason is why a generation ended.
type Reason string

// The reasons.
const (
	Enough, Full           Reason = "as many tokens as asked for", "the context is full"
	Stopped, Ended, Broken Reason = "a stop text", "the model ended the text", "interrupted"
)

// Generated counts the tokens of a generation, and the time that they took.
type Generated struct {
	Prompt int // tokens
	Tokens int // generated
	Reason Reason
	First  time.Duration // of the prompt
	Took   time.Duration // of the tokens, without the prompt
}

// Generate writes text that follows the prompt, token by token. When ctx ends, it returns what has been
// generated.
func Generate(ctx context.Context, d *Decoder, t tokenizer.Tokenizer, g Generation, w io.Writer) (Generated, error) {
	l := &loop{d: d, t: t, g: g, w: w, sampler: newSampler(g.Sampling), text: stream{tokenizer: t, stops: g.Stops}}
	begin := time.Now()
	logits, err := l.start()
	if err != nil {
		return l.done, err
	}
	l.done.First = time.Since(begin)
	begin = time.Now()
	err = l.run(ctx, logits)
	l.done.Took = time.Since(begin)
	return l.done, err
}

type loop struct {
	d       *Decoder
	t       tokenizer.Tokenizer
	g       Generation
	w       io.Writer
	sampler *Sampler
	text    stream
	tokens  []int32 // prompt and text
	done    Generated
}

// start computes the prompt.
func (l *loop) start() (logits []float32, err error) {
	if l.tokens, err = l.t.Append(nil, l.g.Prompt, true); err != nil {
		return nil, usererr.Errorf("--prompt", "use only text that the model's tokenizer can encode", "%v", err)
	}
	l.done.Prompt = len(l.tokens)
	if len(l.tokens) == 0 {
		return nil, usererr.Errorf("--prompt", `give at least one character, such as "\n"`, "the prompt is empty")
	}
	room := l.d.Context()
	if len(l.tokens) > room && !l.g.Slide {
		return nil, usererr.Errorf("--prompt", "shorten it, or use --slide, which reads only its end", "the prompt has %d tokens, and the model's context is %d", len(l.tokens), room)
	}
	l.d.Reset()
	return l.d.Feed(l.tail(room))
}

// tail returns the last tokens, at most n.
func (l *loop) tail(n int) []int32 { return l.tokens[max(0, len(l.tokens)-n):] }

func (l *loop) run(ctx context.Context, logits []float32) (err error) {
	l.done.Reason = Enough
	for l.done.Tokens < l.g.Most {
		if ctx.Err() != nil {
			l.done.Reason = Broken
			break
		}
		token := l.sampler.Next(logits[:min(len(logits), l.t.Vocabulary())])
		if s, ok := l.t.(interface{ Special(int32) bool }); ok && s.Special(token) {
			l.done.Reason = Ended
			break
		}
		l.done.Tokens++
		l.tokens = append(l.tokens, token)
		text, stopped := l.text.add(token)
		if _, err := io.WriteString(l.w, text); err != nil {
			return err
		}
		if stopped {
			l.done.Reason = Stopped
			return nil
		}
		if l.done.Tokens == l.g.Most {
			break
		}
		if logits, err = l.next(token); err != nil || logits == nil {
			l.done.Reason = Full
			break
		}
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(l.w, l.text.end())
	return err
}

// next returns the logits that follow a token; nil if the context is full.
func (l *loop) next(token int32) ([]float32, error) {
	if l.d.Len() < l.d.Context() {
		return l.d.Feed([]int32{token})
	}
	if !l.g.Slide {
		return nil, nil
	}
	l.d.Reset()
	return l.d.Feed(l.tail(max(1, l.d.Context()/2)))
}
