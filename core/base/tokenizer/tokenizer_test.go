package tokenizer

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
	"pgregory.net/rapid"
)

func TestBytes(t *testing.T) {
	got, err := Bytes{}.Append([]int32{7}, "é\xff", true)
	if err != nil || !slices.Equal(got, []int32{7, 0xc3, 0xa9, 0xff}) {
		t.Errorf("%v, %v", got, err)
	}
	if s := (Bytes{}).Decode(got[1:]); s != "é\uFFFD" {
		t.Errorf("%q", s)
	}
	if n, known := (Bytes{}).Bytes(3); n != 1 || !known || (Bytes{}).Vocabulary() != 256 {
		t.Error("a byte is not a byte")
	}
}

// The vocabulary of characters is sorted by code point, as in nanoGPT's prepare.py.
func TestChars(t *testing.T) {
	c, err := CharsOf("héllo\n", "東 h")
	if err != nil || strings.Join(c.Names(), "") != "\n hloé東" || c.Vocabulary() != 7 {
		t.Fatalf("%q, %v", c.Names(), err)
	}
	got, err := c.Append(nil, "olé東", false)
	if err != nil || !slices.Equal(got, []int32{4, 3, 5, 6}) || c.Decode(got) != "olé東" {
		t.Errorf("%v, %v", got, err)
	}
	if n, known := c.Bytes(6); n != 3 || !known {
		t.Errorf("%d bytes", n)
	}
	var unknown *UnknownError
	if _, err := c.Append(nil, "hé!", false); !errors.As(err, &unknown) || unknown.Offset != 3 || unknown.Character != '!' {
		t.Errorf("error %v", err)
	}
	var invalid *InvalidError
	if _, err := CharsOf("ok", "h\xc3("); !errors.As(err, &invalid) || invalid.Offset != 1 {
		t.Errorf("error %v", err)
	}
	for _, names := range [][]string{{"a", "bc"}, {"a", ""}, {"a", "a"}, {"\xff"}} {
		if _, err := NewChars(names); err == nil {
			t.Errorf("%q was accepted", names)
		}
	}
}

// Text that is not UTF-8 is refused with its place; it is never encoded in part.
func TestInvalidTextIsRefused(t *testing.T) {
	p := parsed(t, goldens(t)["gpt2"].Tokenizer)
	var invalid *InvalidError
	if _, err := p.Append(nil, "fine \xe2\x82 not", false); !errors.As(err, &invalid) || invalid.Offset != 5 {
		t.Errorf("error %v", err)
	}
}

// Rust's String::from_utf8_lossy, which decoders use, on Unicode's example of maximal subparts.
func TestLossyDecoding(t *testing.T) {
	for in, want := range map[string]string{
		"a\xf1\x80\x80\xe1\x80\xc2b\x80c\x80\xbfd": "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd",
		"\xe0\x80\x80\xed\xa0\x80\xf4\x90\x80":     strings.Repeat("\uFFFD", 9),
		"\xf0\x9f\x91":                             "\uFFFD",
		"\xf0\x9f\x91\x8d":                         "👍",
	} {
		if got := lossy([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// The scanners cut as the expressions they stand for.
func TestScannersAreTheirExpressions(t *testing.T) {
	chars := []rune("aZé東 \u00a0\t\n\r'stdmrevlSTDMREVLſ0９½².!/\u0301\u200d👍_'")
	for expr := range scanners {
		re := regex(regexp2.MustCompile(expr, regexp2.None))
		rapid.Check(t, func(t *rapid.T) {
			s := string(rapid.SliceOf(rapid.SampledFrom(chars)).Draw(t, "text"))
			if strings.Contains(s, "ſ") {
				s = strings.ReplaceAll(s, "'ſ", "") // regexp2 does not fold it, tokenizers does: see the goldens
			}
			cut := func(f finder) (all []string) {
				f(s, func(lo, hi int, match bool) {
					if !match {
						t.Fatalf("%q of %q is no match", s[lo:hi], s)
					}
					all = append(all, s[lo:hi])
				})
				return all
			}
			if a, b := cut(scanner(scanners[expr])), cut(re); !slices.Equal(a, b) {
				t.Fatalf("%q is cut into %q, by the expression into %q", s, a, b)
			}
		})
	}
}

// Tokens of bytes give any text back, and their lengths add up to it.
func TestByteLevelIsLossless(t *testing.T) {
	for _, name := range []string{"gpt2", "llama3", "qwen2", "o200k"} {
		p := parsed(t, goldens(t)[name].Tokenizer)
		rapid.Check(t, func(t *rapid.T) {
			s := rapid.String().Filter(utf8.ValidString).Draw(t, "text")
			ids, err := p.Append(nil, s, false)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Decode(ids); got != s {
				t.Fatalf("%q came back as %q", s, got)
			}
			sum := 0
			for _, id := range ids {
				n, known := p.Bytes(id)
				if !known {
					t.Fatalf("the bytes of %d are unknown", id)
				}
				sum += n
			}
			if sum != len(s) {
				t.Fatalf("%d bytes of tokens for %d of text", sum, len(s))
			}
		})
	}
	if _, known := parsed(t, goldens(t)["words"].Tokenizer).Bytes(5); known {
		t.Error("the bytes of a normalised token are known")
	}
}

// A file that this package cannot follow exactly is refused, with the part that it does not know.
func TestParseErrors(t *testing.T) {
	good := goldens(t)["gpt2"].Tokenizer
	with := func(key string, value string) []byte {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(good, &m); err != nil {
			t.Fatal(err)
		}
		m[key] = json.RawMessage(value)
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		file []byte
		want string
	}{
		{[]byte(`{"a": 1`), "not a tokenizer.json"},
		{[]byte(`{"version": "1.0"}`), `no "model"`},
		{with("model", `{"type":"Unigram","vocab":[["a",-1]]}`), `model: the type "Unigram" is not supported, only BPE`},
		{with("model", `{"type":"BPE","vocab":{},"merges":[]}`), "the vocabulary is empty"},
		{with("model", `{"type":"BPE","vocab":{"a":0},"merges":[["a","b"]]}`), `merge 0: "b" is not in the vocabulary`},
		{with("model", `{"type":"BPE","vocab":{"a":0},"merges":["a"]}`), "is not a pair"},
		{with("model", `{"type":"BPE","vocab":{"a":0},"merges":[],"dropout":0.1}`), "dropout = 0.1"},
		{with("model", `{"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"u"}`), `unk_token "u"`},
		{with("model", `{"type":"BPE","vocab":{"a":99999999},"merges":[]}`), "outside 0 to"},
		{with("normalizer", `{"type":"Precompiled"}`), `normalizer: the type "Precompiled" is not supported`},
		{with("normalizer", `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Precompiled"}]}`), `normalizer: the type "Precompiled"`},
		{with("pre_tokenizer", `{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated","invert":false}`), `pattern "(" is not supported`},
		{with("pre_tokenizer", `{"type":"Split","pattern":{"String":"a"},"behavior":"Scattered","invert":false}`), `unknown behavior "Scattered"`},
		{with("pre_tokenizer", `{"type":"Metaspace","replacement":"_","prepend_scheme":"last"}`), `prepend_scheme "last"`},
		{with("post_processor", `{"type":"BertProcessing"}`), "post_processor: BertProcessing: "},
		{with("post_processor", `{"type":"RobertaProcessing","sep":["a",1],"cls":["b",99999]}`), "post_processor: no token has the id 99999"},
		{with("post_processor", `{"type":"Other"}`), `post_processor: the type "Other"`},
		{with("pre_tokenizer", `{"type":"FixedLength","length":0}`), "FixedLength: length = 0"},
		{with("post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{}}`), `special token "x" has no ids`},
		{with("decoder", `{"type":"CTC"}`), `decoder: the type "CTC"`},
	} {
		if _, err := parse(c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// Merges of older files are one string each.
func TestOldMerges(t *testing.T) {
	p := parsed(t, []byte(`{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"abab":3},"merges":["a b","ab ab"]}}`))
	got, err := p.Append(nil, "ababab", false)
	if err != nil || !slices.Equal(got, []int32{3, 2}) {
		t.Errorf("%v, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]}}`), "abba")
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		p, err := parse(file)
		if err != nil {
			return
		}
		ids, err := p.Append(nil, text, true)
		if err != nil {
			return
		}
		for _, id := range ids {
			if id < 0 || int(id) >= p.Vocabulary() {
				t.Fatalf("token %d of %d", id, p.Vocabulary())
			}
		}
		p.Decode(ids)
	})
}

func BenchmarkGPT2(b *testing.B) {
	p := parsed(b, goldens(b)["gpt2"].Tokenizer)
	text := strings.Repeat("The ranks reduce a bucket, and don't wait: 1200 steps in 35 s.\n", 1000)
	b.SetBytes(int64(len(text)))
	var ids []int32
	for b.Loop() {
		ids, _ = p.Append(ids[:0], text, false)
	}
}
