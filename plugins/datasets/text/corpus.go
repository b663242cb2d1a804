package text

import "github.com/trainctl/trainctl/core/engine/kernel/random"

// generatedBytes is the size of the generated text.
const generatedBytes = 1 << 19

// generatedNotice is shown if a run trains on generated text.
const generatedNotice = "TRAINING ON GENERATED SENTENCES: the option files names no text. " +
	"The loss says nothing about real text. Give text or token files in dataset.options.files to train on them."

// The lexicon of generated sentences: each sentence is a pattern whose digits stand for lists of words.
var (
	lexicon = [][]string{
		{"Ada", "Emmy", "Grace", "Hedy", "Katherine", "Mary", "Sofia", "Rosalind"},
		{"baker", "clerk", "farmer", "gardener", "painter", "sailor", "teacher", "weaver"},
		{"carries", "counts", "finds", "keeps", "mends", "paints", "sells", "weighs"},
		{"apple", "basket", "candle", "hammer", "kettle", "lantern", "ladder", "violin"},
		{"blue", "broken", "heavy", "narrow", "old", "quiet", "round", "wooden"},
		{"in the garden", "by the river", "at the market", "behind the mill", "on the bridge", "near the harbour"},
		{"in the morning", "at noon", "before the rain", "after supper", "every winter"},
		{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"},
	}
	sentences = []string{
		"The 4 1 2 a 4 3 5.", "0 2 the 3 6.", "0 and the 1 are 5 6.", "\"Where is the 3?\" asks the 1. \"It is 5,\" says 0.", "6, the 1 2 a 3.", "0, the 1, 2 no 3.",
	}
)

// generate returns about n bytes of sentences, the same on every machine. Some are correct sums, so
// that there is more to learn than spelling.
func generate(n int) []byte {
	r := draws{}
	text := make([]byte, 0, n+256)
	for len(text) < n {
		for range 2 + r.below(5) {
			if r.below(6) == 0 {
				text = r.sum(text)
			} else {
				text = r.sentence(text, sentences[r.below(len(sentences))])
			}
			text = append(text, ' ')
		}
		text[len(text)-1] = '\n'
		if r.below(3) == 0 {
			text = append(text, '\n')
		}
	}
	return text
}

// draws is the generator SplitMix64 (Steele, Lea, Flood, 2014), used for integers only.
type draws struct{ state uint64 }

func (r *draws) below(n int) int {
	r.state += 0x9e3779b97f4a7c15
	return int(random.Mix(r.state) >> 32 * uint64(n) >> 32)
}

// sentence appends a pattern with its digits replaced by words.
func (r *draws) sentence(text []byte, pattern string) []byte {
	from := len(text)
	for _, c := range []byte(pattern) {
		if c < '0' || c > '9' {
			text = append(text, c)
			continue
		}
		words := lexicon[c-'0']
		text = append(text, words[r.below(len(words))]...)
	}
	if c := text[from]; c >= 'a' && c <= 'z' {
		text[from] = c - 'a' + 'A'
	}
	return text
}

func (r *draws) sum(text []byte) []byte {
	numbers := lexicon[7]
	a, b := r.below(10), r.below(10)
	from := len(text)
	for _, s := range []string{numbers[a], " and ", numbers[b], " are ", numbers[a+b], "."} {
		text = append(text, s...)
	}
	text[from] -= 'a' - 'A'
	return text
}
