package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// golden is a tokenizer of the package tokenizers, and what it makes of texts.
type golden struct {
	Tokenizer  json.RawMessage
	Vocabulary int
	Cases      []struct {
		Text    string
		Plain   []int32
		IDs     []int32 // with special tokens; nil: as without
		Decoded *string // nil: the text
	}
}

func goldens(t testing.TB) (all map[string]golden) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "tokenizers.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func parsed(t testing.TB, raw []byte) *Pipeline {
	t.Helper()
	p, err := parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Every golden text has the tokens and the text that the package tokenizers gives it.
func TestPipelinesAsTokenizers(t *testing.T) {
	for name, g := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			p := parsed(t, g.Tokenizer)
			if p.Vocabulary() != g.Vocabulary {
				t.Errorf("%d tokens, want %d", p.Vocabulary(), g.Vocabulary)
			}
			for round := range 2 { // the second time from known pieces
				for _, c := range g.Cases {
					for _, special := range []bool{false, true} {
						want := c.Plain
						if special && c.IDs != nil {
							want = c.IDs
						}
						got, err := p.Append(nil, c.Text, special)
						if err != nil || !slices.Equal(got, want) {
							t.Errorf("round %d: %q with special tokens %v:\ngot  %v (%v)\nwant %v", round, c.Text, special, got, err, want)
						}
					}
					want := c.Text
					if c.Decoded != nil {
						want = *c.Decoded
					}
					if got := p.Decode(c.Plain); got != want {
						t.Errorf("%v is %q, want %q", c.Plain, got, want)
					}
				}
			}
		})
	}
}
