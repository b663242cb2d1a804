package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Pipeline is a tokenizer of a tokenizer.json. Text passes its parts in this order: added
// tokens are cut out, the rest is normalised, cut into pieces, and each piece is encoded.
type Pipeline struct {
	added    addedTokens
	normal   []normalizer
	pieces   []splitter
	model    *bpe
	before   []int32 // special tokens around a text
	after    []int32
	decoders []decoder
	names    []string // by token; "" where there is none
	exact    bool     // tokens are bytes of the text as it was
}

// parse reads a tokenizer.json whose model is a BPE. A part that this package does not know
// is an error that names it.
func parse(data []byte) (*Pipeline, error) {
	var f struct {
		Added      []addedToken    `json:"added_tokens"`
		Normalizer *part           `json:"normalizer"`
		Pre        *part           `json:"pre_tokenizer"`
		Model      json.RawMessage `json:"model"`
		Post       *part           `json:"post_processor"`
		Decoder    *part           `json:"decoder"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("not a tokenizer.json: %w", err)
	}
	if len(f.Model) == 0 || string(f.Model) == "null" {
		return nil, errors.New(`not a tokenizer.json: it has no "model"`)
	}
	p := &Pipeline{}
	var err error
	if p.model, err = parseBPE(f.Model); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if p.normal, err = parts(f.Normalizer, "normalizers", normalizerOf); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if p.pieces, err = parts(f.Pre, "pretokenizers", splitterOf); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if p.decoders, err = parts(f.Decoder, "decoders", decoderOf); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	if err := p.surround(f.Post); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	if err := p.name(f.Added); err != nil {
		return nil, err
	}
	p.added = newAddedTokens(f.Added, p.normalize)
	p.exact = len(p.normal) == 0 && f.Decoder != nil && f.Decoder.Type == "ByteLevel"
	return p, nil
}

// part is one component of a tokenizer.json: its type, and the rest of its object.
type part struct {
	Type string
	raw  json.RawMessage
}

func (p *part) UnmarshalJSON(b []byte) error {
	var head struct{ Type string }
	err := json.Unmarshal(b, &head)
	p.Type, p.raw = head.Type, append(p.raw, b...)
	return err
}

// read decodes the part's own members.
func (p *part) read(into any) error {
	if err := json.Unmarshal(p.raw, into); err != nil {
		return fmt.Errorf("%s: %w", p.Type, err)
	}
	return nil
}

func (p *part) unknown() error {
	return fmt.Errorf("the type %q is not supported", p.Type)
}

// parts makes the components of a part in their order: its own, or those of a Sequence, which
// lists them under a key.
func parts[T any](p *part, key string, one func(*part) (T, error)) (all []T, err error) {
	if p == nil {
		return nil, nil
	}
	if p.Type != "Sequence" {
		v, err := one(p)
		return []T{v}, err
	}
	var members map[string]json.RawMessage
	if err := p.read(&members); err != nil {
		return nil, err
	}
	var list []part
	if err := json.Unmarshal(members[key], &list); err != nil {
		return nil, fmt.Errorf("%s: %q: %w", p.Type, key, err)
	}
	for i := range list {
		more, err := parts(&list[i], key, one)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// surround finds the special tokens around a text.
func (p *Pipeline) surround(post *part) error {
	all, err := parts(post, "processors", func(p *part) (*part, error) { return p, nil })
	for _, q := range all {
		switch q.Type {
		case "ByteLevel": // concerns offsets alone
		case "TemplateProcessing":
			if err := p.template(q); err != nil {
				return err
			}
		case "RobertaProcessing", "BertProcessing":
			if err := p.classifier(q); err != nil {
				return err
			}
		default:
			return q.unknown()
		}
	}
	return err
}

// template reads the template of a single text: special tokens before and after it.
func (p *Pipeline) template(q *part) error {
	var t struct {
		Single []struct {
			SpecialToken *struct{ ID string }
			Sequence     *struct{ ID string }
		}
		Special map[string]struct{ IDs []int32 } `json:"special_tokens"`
	}
	if err := q.read(&t); err != nil {
		return err
	}
	around := &p.before
	for _, s := range t.Single {
		if s.SpecialToken == nil {
			around = &p.after
			continue
		}
		special, ok := t.Special[s.SpecialToken.ID]
		if !ok {
			return fmt.Errorf("%s: the special token %q has no ids", q.Type, s.SpecialToken.ID)
		}
		*around = append(*around, special.IDs...)
	}
	return nil
}

// classifier reads the two tokens that BERT and RoBERTa put around a text.
func (p *Pipeline) classifier(q *part) error {
	var t struct{ CLS, Sep [2]json.RawMessage } // a name and an id
	err := q.read(&t)
	for _, at := range []struct {
		around *[]int32
		token  json.RawMessage
	}{{&p.before, t.CLS[1]}, {&p.after, t.Sep[1]}} {
		var id int32
		if err == nil {
			err = json.Unmarshal(at.token, &id)
		}
		*at.around = append(*at.around, id)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", q.Type, err)
	}
	return nil
}

// maxVocabulary bounds the ids of a file, so that a damaged one cannot allocate without limit.
const maxVocabulary = 1 << 24

// name collects the names of all tokens, by id.
func (p *Pipeline) name(added []addedToken) error {
	set := func(id int32, name string) error {
		if id < 0 || id >= maxVocabulary {
			return fmt.Errorf("the token %q has the id %d, outside 0 to %d", name, id, maxVocabulary-1)
		}
		for int(id) >= len(p.names) {
			p.names = append(p.names, "")
		}
		p.names[id] = name
		return nil
	}
	for name, id := range p.model.vocab {
		if err := set(id, name); err != nil {
			return err
		}
	}
	for _, a := range added {
		name := a.Content
		if a.Normalized {
			name = p.normalize(name)
		}
		if err := set(a.ID, name); err != nil {
			return err
		}
	}
	for _, id := range append(append([]int32(nil), p.before...), p.after...) {
		if id < 0 || int(id) >= len(p.names) {
			return fmt.Errorf("post_processor: no token has the id %d", id)
		}
	}
	return nil
}

// Vocabulary implements [Tokenizer].
func (p *Pipeline) Vocabulary() int { return len(p.names) }

func (p *Pipeline) normalize(text string) string {
	for _, n := range p.normal {
		text = n(text)
	}
	return text
}

// Append implements [Tokenizer].
func (p *Pipeline) Append(tokens []int32, text string, special bool) ([]int32, error) {
	if err := CheckUTF8(text); err != nil {
		return tokens, err
	}
	if special {
		tokens = append(tokens, p.before...)
	}
	take := func(piece string) { tokens = p.model.append(tokens, piece) }
	for _, s := range p.added.cut(text, p.normalize) {
		if s.token >= 0 {
			tokens = append(tokens, s.token)
		} else {
			p.split(0, s.text, s.first, take)
		}
	}
	if special {
		tokens = append(tokens, p.after...)
	}
	return tokens, nil
}

// split passes text through the pre-tokenizers from one on. Nothing is collected in between:
// a text may be large.
func (p *Pipeline) split(from int, text string, first bool, take func(string)) {
	switch {
	case text == "":
	case from == len(p.pieces):
		take(text)
	default:
		p.pieces[from](text, first, func(piece string, first bool) { p.split(from+1, piece, first, take) })
	}
}

// Decode implements [Tokenizer]. Special tokens are left out; ids without a token give nothing.
func (p *Pipeline) Decode(tokens []int32) string {
	var names []string
	for _, t := range tokens {
		if t < 0 || int(t) >= len(p.names) || p.names[t] == "" || p.added.special[t] {
			continue
		}
		names = append(names, p.names[t])
	}
	if len(p.decoders) == 0 {
		return strings.Join(names, " ")
	}
	for _, d := range p.decoders {
		names = d(names)
	}
	return strings.Join(names, "")
}

// Special reports whether a token stands for no text but marks its place, such as <|endoftext|>.
func (p *Pipeline) Special(token int32) bool { return p.added.special[token] }

// Bytes implements [Tokenizer]: the bytes of a token are known where the model works on the
// bytes of a text that is not normalised.
func (p *Pipeline) Bytes(token int32) (int, bool) {
	if !p.exact || token < 0 || int(token) >= len(p.names) {
		return 0, false
	}
	return len(bytesOf(p.names[token])), true
}

var _ Tokenizer = (*Pipeline)(nil)
