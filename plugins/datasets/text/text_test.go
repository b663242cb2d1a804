package text

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/tensor"
)

const prose = "One rank reads.\nTwo ranks wait — for Zoë.\n\nAll of them add.\n"

// fileSystem has text, token files and a tokenizer in /d.
func fileSystem(t testing.TB) afero.Fs {
	t.Helper()
	fs := afero.NewMemMapFs()
	tokens := make([]uint16, 100)
	for i := range tokens {
		tokens[i] = uint16(i * i % 50)
	}
	raw := tensor.Bytes(tokens)
	long := tensor.Bytes([]uint32{70000, 3, 2, 1, 0, 5, 6, 7, 8, 9, 70001})
	vocab := map[string]int{"▁": 0, "r": 1, "a": 2, "n": 3, "k": 4, "ra": 5, "nk": 6, "rank": 7, "<unk>": 8}
	bpe, err := json.Marshal(map[string]any{
		"pre_tokenizer": map[string]any{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": true},
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{"r a", "n k", "ra nk"}, "unk_token": "<unk>"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{
		"/d/a.txt": []byte(prose), "/d/sub/b.txt": []byte(strings.Repeat("rank ", 40)), "/d/.hidden/c.txt": []byte("no"), "/empty.txt": nil,
		"/bad.txt": []byte("fine so far \xff and no further, but long enough"), "/bin/nano.bin": raw, "/bin/odd.bin": raw[:99],
		"/bin/llm16.bin": append(header(100, 2), raw...), "/bin/llm32.bin": append(header(11, 4), long...), "/bin/cut.bin": append(header(101, 2), raw...),
		"/tokenizer.json": bpe, "/model/tokenizer.json": bpe, "/unigram.json": []byte(`{"model":{"type":"Unigram"}}`),
	} {
		if err := fs.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := afero.WriteFile(fs, path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

func TestContract(t *testing.T) {
	fs := fileSystem(t)
	for name, table := range map[string]map[string]any{
		"bytes":     {"files": []any{"/d/a.txt"}, "context": 8},
		"stride":    {"files": []any{"/d/a.txt"}, "context": 8, "stride": 3, "validation": 0.3},
		"chars":     {"files": []any{"/d"}, "context": 8, "tokenizer": "chars", "validation": 0.25},
		"bpe":       {"files": []any{"/d/sub/*.txt"}, "context": 6, "tokenizer": "/tokenizer.json", "validation": 0.25},
		"nanoGPT":   {"files": []any{"/bin/nano.bin"}, "context": 7, "validation": 0.2},
		"llm.c":     {"files": []any{"/bin/llm16.bin", "/bin/nano.bin"}, "context": 7, "validation": 0.2},
		"llm.c 32":  {"files": []any{"/bin/llm32.bin"}, "context": 3},
		"generated": {"context": 512, "validation": 0.1, "tokenizer": "chars"},
	} {
		t.Run(name, func(t *testing.T) {
			sdktest.Dataset(t, sdktest.DatasetOptions{
				New: func(testing.TB) sdk.Dataset { return New(fs) }, Options: table, Samples: 200,
				Refused: map[string]map[string]any{
					"files":      {"files": []any{"/none.txt"}},
					"context":    {"context": 1 << 22},
					"tokenizer":  {"tokenizer": "/none.json"},
					"validation": {"validation": 1.0},
					"dtype":      {"dtype": "uint8"},
				},
			})
		})
	}
}

func opened(t testing.TB, fs afero.Fs, table map[string]any) (*Dataset, sdk.DatasetSpec) {
	t.Helper()
	d := New(fs)
	spec, err := open(d, table)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, spec
}

func open(d *Dataset, table map[string]any) (sdk.DatasetSpec, error) {
	o, problems := sdk.CheckOptions("", d.Info().Options, table)
	if err := problems.Err(); err != nil {
		return sdk.DatasetSpec{}, err
	}
	return d.Open(context.Background(), sdk.DatasetRequest{Options: o})
}

func read(t testing.TB, d *Dataset, split sdk.Split, indices ...int64) (input, target []int32) {
	t.Helper()
	n := 4 * len(indices) * d.splits[split].context
	b := &sdk.Batch{Split: split, Indices: indices, Input: tensor.Aligned(n), Target: tensor.Aligned(n)}
	if err := d.Fill(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return tensor.View[int32](b.Input), tensor.View[int32](b.Target)
}

// Samples are windows from multiples of the context, and as many as leave a target for every
// token: (tokens − 1) / context.
func TestWindows(t *testing.T) {
	fs := afero.NewMemMapFs()
	for n := 9; n < 60; n++ {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte(i)
		}
		if err := afero.WriteFile(fs, "/t", text, 0o644); err != nil {
			t.Fatal(err)
		}
		d, spec := opened(t, fs, map[string]any{"files": []any{"/t"}, "context": 8})
		if want := (n - 1) / 8; spec.TrainSamples != want || spec.TestSamples != 0 || spec.Vocabulary != 256 || spec.Classes != 256 || spec.Tokens() != 8 {
			t.Fatalf("%d tokens: %+v, want %d samples", n, spec, want)
		}
		for i := range spec.TrainSamples {
			input, target := read(t, d, sdk.Train, int64(i))
			for k := range input {
				if input[k] != int32(8*i+k) || target[k] != int32(8*i+k+1) {
					t.Fatalf("sample %d is %v, then %v", i, input, target)
				}
			}
		}
	}
}

// The validation split is the tail; a stride below the context makes windows overlap, and the
// bytes of the targets are counted as often.
func TestValidationAndStride(t *testing.T) {
	fs := fileSystem(t)
	d, spec := opened(t, fs, map[string]any{"files": []any{"/d/a.txt"}, "tokenizer": "chars", "context": 8, "stride": 2, "validation": 0.4})
	chars := []rune(prose)
	split := int(float64(len(chars)) * 0.6)
	if want := (len(chars) - split - 9) / 2; spec.TestSamples != want+1 || spec.TrainSamples != (split-9)/2+1 {
		t.Fatalf("%d and %d samples of %d characters", spec.TrainSamples, spec.TestSamples, len(chars))
	}
	bytes := 0
	for i := range spec.TestSamples {
		input, target := read(t, d, sdk.Test, int64(i))
		at := split + 2*i
		if got, want := d.corpus.tokenizer.Decode(input), string(chars[at:at+8]); got != want {
			t.Errorf("sample %d is %q, want %q", i, got, want)
		}
		want := string(chars[at+1 : at+9])
		if got := d.corpus.tokenizer.Decode(target); got != want {
			t.Errorf("target %d is %q, want %q", i, got, want)
		}
		bytes += len(want)
	}
	if spec.TestBytes != int64(bytes) {
		t.Errorf("%d bytes, want %d", spec.TestBytes, bytes)
	}
	if !slices.IsSorted(spec.ClassNames) || len(spec.ClassNames) != spec.Vocabulary || !slices.Contains(spec.ClassNames, "ë") {
		t.Errorf("characters %q", spec.ClassNames)
	}
}

// Several files are one text, in their order; windows go across their borders.
func TestFilesFollowEachOther(t *testing.T) {
	fs := fileSystem(t)
	d, spec := opened(t, fs, map[string]any{"files": []any{"/d/sub/b.txt", "/d", "/d/a.*"}, "context": 20})
	all := strings.Repeat("rank ", 40) + prose // each once
	if spec.TrainSamples != (len(all)-1)/20 {
		t.Fatalf("%d samples of %d bytes", spec.TrainSamples, len(all))
	}
	for i := range spec.TrainSamples {
		input, _ := read(t, d, sdk.Train, int64(i))
		if got := d.corpus.tokenizer.Decode(input); got != strings.ToValidUTF8(all[20*i:20*i+20], "\uFFFD") && !strings.Contains(got, "\uFFFD") {
			t.Errorf("sample %d is %q", i, got)
		}
	}
}

func TestTokenFiles(t *testing.T) {
	fs := fileSystem(t)
	for _, c := range []struct {
		table map[string]any
		want  []int32
		vocab int
	}{
		{map[string]any{"files": []any{"/bin/nano.bin"}}, []int32{0, 1, 4, 9, 16}, 50},
		{map[string]any{"files": []any{"/bin/nano.bin"}, "vocabulary": 50257}, []int32{0, 1, 4, 9, 16}, 50257},
		{map[string]any{"files": []any{"/bin/llm16.bin"}}, []int32{0, 1, 4, 9, 16}, 50},
		{map[string]any{"files": []any{"/bin/llm32.bin"}}, []int32{70000, 3, 2, 1, 0}, 70002},
		{map[string]any{"files": []any{"/bin/nano.bin"}, "dtype": "uint32"}, []int32{1 << 16, 9<<16 | 4, 25<<16 | 16, 49<<16 | 36, 31<<16 | 14}, 0},
	} {
		c.table["context"] = 5
		d, spec := opened(t, fs, c.table)
		if got, _ := read(t, d, sdk.Train, 0); !slices.Equal(got, c.want) || c.vocab > 0 && spec.Vocabulary != c.vocab || spec.Source != SourceTokens || spec.TestBytes != 0 {
			t.Errorf("%v: %v of %d, want %v of %d", c.table, got, spec.Vocabulary, c.want, c.vocab)
		}
	}
}

func TestBPE(t *testing.T) {
	for _, path := range []string{"/tokenizer.json", "/model"} {
		d, spec := opened(t, fileSystem(t), map[string]any{"files": []any{"/d/sub"}, "tokenizer": path, "context": 4})
		if got, _ := read(t, d, sdk.Train, 1); spec.Vocabulary != 9 || !slices.Equal(got, []int32{7, 0, 7, 0}) && !slices.Equal(got, []int32{0, 7, 0, 7}) {
			t.Errorf("%v of %d", got, spec.Vocabulary)
		}
	}
}

// What is wrong with a file is said with its name, and where it can be with the place.
func TestErrors(t *testing.T) {
	fs := fileSystem(t)
	for _, c := range []struct {
		table map[string]any
		want  string
	}{
		{map[string]any{"files": []any{"/empty.txt"}}, "/empty.txt is empty"},
		{map[string]any{"files": []any{"/d/a.txt"}, "context": 70}, "context: a sample needs 71 tokens, context and one, but there are only 63 to train on"},
		{map[string]any{"files": []any{"/d/a.txt"}, "context": 10, "validation": 0.1}, "validation: a sample needs 11 tokens"},
		{map[string]any{"files": []any{"/bad.txt"}, "tokenizer": "chars", "context": 4}, "/bad.txt: invalid UTF-8 at byte 12; fix: convert it to UTF-8"},
		{map[string]any{"files": []any{"/bad.txt"}, "tokenizer": "/tokenizer.json", "context": 4}, "/bad.txt: invalid UTF-8 at byte 12"},
		{map[string]any{"files": []any{"/d/a.txt"}, "tokenizer": "/unigram.json"}, `tokenizer: /unigram.json: model: the type "Unigram" is not supported`},
		{map[string]any{"files": []any{"/bin/odd.bin"}}, "/bin/odd.bin has 99 bytes, which is not a whole number of 2-byte tokens"},
		{map[string]any{"files": []any{"/bin/cut.bin"}}, "/bin/cut.bin has 200 bytes after its header, which says 101 tokens"},
		{map[string]any{"files": []any{"/bin/nano.bin", "/d/a.txt"}}, "files: /bin/nano.bin and /d/a.txt are of different kinds"},
		{map[string]any{"files": []any{"/d/*.md"}}, `files: there is no file at "/d/*.md"`},
		{map[string]any{"files": []any{"/d/[a.txt"}}, `files: the pattern "/d/[a.txt" is malformed`},
		{map[string]any{"files": []any{"/d/a.txt"}, "vocabulary": 5}, "vocabulary: is for token files"},
		{map[string]any{"files": []any{"/bin/llm32.bin"}, "dtype": "uint16", "vocabulary": 70000, "context": 10}, ""},
	} {
		d := New(fs)
		_, err := open(d, c.table)
		if c.want == "" {
			b := &sdk.Batch{Indices: []int64{0}, Input: tensor.Aligned(40), Target: tensor.Aligned(40)}
			if err = d.Fill(t.Context(), b); !sdk.IsCorrupt(err) {
				t.Errorf("%v: %v is no damage", c.table, err)
			}
			c.want = "/bin/llm32.bin: token 0 at byte 1024 is 70000, but the vocabulary has 70000"
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %s", c.table, err, c.want)
		}
	}
}

// Generated text is the same everywhere, is announced, and comes in place of files only where
// that is asked for.
func TestGeneratedText(t *testing.T) {
	fs := afero.NewMemMapFs()
	_, spec := opened(t, fs, map[string]any{"context": 64})
	_, again := opened(t, fs, map[string]any{"context": 64, "files": []any{"/none.txt"}, "fallback": "generated"})
	if spec.Source != SourceGenerated || !strings.Contains(spec.Notice, "TRAINING ON GENERATED SENTENCES") || again.Fingerprint != spec.Fingerprint {
		t.Errorf("%+v and %+v", spec, again)
	}
	const golden = "xxh64:2fab7e36b2c10ad7"
	if !strings.HasPrefix(spec.Fingerprint, golden+" ") {
		t.Errorf("the text has changed: %s", spec.Fingerprint)
	}
	o, _ := sdk.CheckOptions("", New(fs).Info().Options, map[string]any{"files": []any{"/none.txt"}})
	if err := New(fs).Locate(o); err == nil || !strings.Contains(err.Error(), "/none.txt") {
		t.Errorf("located nothing: %v", err)
	}
}

func TestFillAllocatesNothing(t *testing.T) {
	d, _ := opened(t, afero.NewMemMapFs(), map[string]any{"context": 64})
	b := &sdk.Batch{Indices: []int64{5, 1, 77}, Input: tensor.Aligned(3 * 256), Target: tensor.Aligned(3 * 256)}
	if n := testing.AllocsPerRun(20, func() {
		if err := d.Fill(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Encoding a text first, or when it is opened, gives the same samples; characters keep their
// names.
func TestTokenize(t *testing.T) {
	fs := fileSystem(t)
	for _, tok := range []string{"bytes", "chars", "/tokenizer.json"} {
		text, want := opened(t, fs, map[string]any{"files": []any{"/d"}, "tokenizer": tok, "context": 8, "validation": 0.2})
		w, err := Tokenize(fs, []string{"/d"}, tok, "/out.bin")
		if err != nil || w.Files != 2 || w.TextBytes != int64(len(prose))+200 || w.TokenBytes != 2 || w.Vocabulary != want.Vocabulary {
			t.Fatalf("%+v, %v", w, err)
		}
		table := map[string]any{"files": []any{"/out.bin"}, "context": 8, "validation": 0.2}
		bin, got := opened(t, fs, table)
		if got.TrainSamples != want.TrainSamples || got.TestSamples != want.TestSamples || got.Vocabulary != want.Vocabulary || !slices.Equal(got.ClassNames, want.ClassNames) || got.TestBytes != want.TestBytes {
			t.Errorf("%s: %+v, want %+v", tok, got, want)
		}
		for i := range want.TrainSamples {
			a, at := read(t, text, sdk.Train, int64(i))
			b, bt := read(t, bin, sdk.Train, int64(i))
			if !slices.Equal(a, b) || !slices.Equal(at, bt) {
				t.Fatalf("%s: sample %d is %v, want %v", tok, i, b, a)
			}
		}
	}
	for _, c := range []struct {
		files []string
		want  string
	}{{[]string{"/bin/nano.bin"}, "is a token file already"}, {nil, "no files to encode"}, {[]string{"/none"}, `no file at "/none"`}} {
		if _, err := Tokenize(fs, c.files, "bytes", "/out.bin"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

// Tiny Shakespeare has the vocabulary and the splits that nanoGPT's prepare.py prints.
func TestTinyShakespeareAsNanoGPT(t *testing.T) {
	path, err := filepath.Abs("../../../../shared/text/tinyshakespeare.txt")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs Tiny Shakespeare beside the repository: %v", err)
	}
	d, spec := opened(t, afero.NewOsFs(), map[string]any{"files": []any{path}, "tokenizer": "chars", "context": 64, "validation": 0.1})
	if spec.Vocabulary != 65 || strings.Join(spec.ClassNames, "") != "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" {
		t.Errorf("vocabulary %d: %q", spec.Vocabulary, spec.ClassNames)
	}
	if n, m := d.splits[sdk.Train].tokens, d.splits[sdk.Test].tokens; n != 1_003_854 || m != 111_540 {
		t.Errorf("%d and %d tokens", n, m)
	}
	if spec.TestBytes != int64(64*spec.TestSamples) || d.corpus.stream.sources[0].width != 1 {
		t.Errorf("%d bytes", spec.TestBytes)
	}
	input, _ := read(t, d, sdk.Train, 0)
	if got := d.corpus.tokenizer.Decode(input); !strings.HasPrefix(got, "First Citizen:\n") {
		t.Errorf("begins with %q", got)
	}
}

func BenchmarkFill(b *testing.B) {
	raw := make([]byte, 1<<20)
	for i := 0; i < len(raw); i += 2 {
		binary.LittleEndian.PutUint16(raw[i:], uint16(i%50257))
	}
	fs := afero.NewMemMapFs()
	if err := afero.WriteFile(fs, "/t.bin", raw, 0o644); err != nil {
		b.Fatal(err)
	}
	d, _ := opened(b, fs, map[string]any{"files": []any{"/t.bin"}, "context": 256})
	batch := &sdk.Batch{Input: tensor.Aligned(64 * 1024), Target: tensor.Aligned(64 * 1024)}
	for i := range 64 {
		batch.Indices = append(batch.Indices, int64(i*7))
	}
	b.SetBytes(int64(len(batch.Input)))
	for b.Loop() {
		if err := d.Fill(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}
