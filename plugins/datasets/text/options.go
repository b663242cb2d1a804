package text

import (
	"math"

	"github.com/trainctl/trainctl/core/base/tokenizer"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
)

// Values of the options tokenizer, dtype and fallback.
const (
	TokenizerBytes = tokenizer.NameBytes
	TokenizerChars = tokenizer.NameChars

	dtypeUint16 = "uint16"
	dtypeUint32 = "uint32"

	fallbackError     = "error"
	fallbackGenerated = "generated"
)

// Info describes the data set and its options.
func (d *Dataset) Info() sdk.Info {
	one, none, longest, most, all := 1.0, 0.0, float64(1<<24), float64(math.MaxInt32), 1.0
	return sdk.Info{
		Kind:    sdk.KindDataset,
		Name:    "text",
		Version: "1.0.0",
		Summary: "windows of tokens for language models, from text or token files",
		Options: []sdk.Option{
			{Name: "files", Type: sdk.StringList, Default: []string{}, Doc: "Text files in UTF-8, or token files (.bin), in this order: files, folders with all they contain, or patterns such as data/*.txt. Without any: generated sentences."},
			{Name: "tokenizer", Type: sdk.String, Default: TokenizerBytes, Doc: "\"bytes\", \"chars\" (the characters of the files), or the path of a Hugging Face tokenizer.json."},
			{Name: "context", Type: sdk.Int, Default: int64(256), Min: &one, Max: &longest, Unit: "tokens", Doc: "Length of a sample. Its targets are the tokens one later."},
			{Name: "stride", Type: sdk.Int, Min: &one, Max: &most, Unit: "tokens", Doc: "Distance between the beginnings of samples. Default: context, so that every token is a target once."},
			{Name: "validation", Type: sdk.Float, Default: 0.0, Min: &none, Max: &all, Doc: "Fraction of the tokens, at the end, to evaluate on; 0: none."},
			{Name: "dtype", Type: sdk.String, Default: dtypeUint16, Enum: []string{dtypeUint16, dtypeUint32}, Doc: "Type of the tokens in token files without a header."},
			{Name: "vocabulary", Type: sdk.Int, Min: &one, Max: &most, Unit: "tokens", Doc: "Number of tokens that token files may have. Default: that of their description or of the tokenizer; without either the largest token and one."},
			{Name: "fallback", Type: sdk.String, Default: fallbackError, Enum: []string{fallbackError, fallbackGenerated}, Doc: "If there are no files where the option files says: fail, or train on generated sentences."},
		},
	}
}

// settings are the options, checked.
type settings struct {
	files      []string
	tokenizer  string
	context    int
	stride     int
	validation float64
	wide       bool // tokens without a header are uint32
	vocabulary int  // 0: not given
	generate   bool
}

func parseSettings(o sdk.Options) (settings, error) {
	var l usererr.List
	s := settings{
		files: o.Strings("files"), tokenizer: o.String("tokenizer"), context: int(o.Int("context")), stride: int(o.Int("stride")),
		validation: o.Float("validation"), wide: o.String("dtype") == dtypeUint32, vocabulary: int(o.Int("vocabulary")),
		generate: o.String("fallback") == fallbackGenerated,
	}
	if s.stride == 0 {
		s.stride = s.context
	}
	if !(s.validation < 1) {
		l.Addf("validation", "leave something to train on, as with 0.1", "%v is all of the text", s.validation)
	}
	if s.tokenizer == "" {
		l.Addf("tokenizer", `write "bytes", "chars" or the path of a tokenizer.json`, "is empty")
	}
	for _, f := range s.files {
		if f == "" {
			l.Addf("files", "remove it", "has an empty name")
		}
	}
	return s, l.Err()
}
