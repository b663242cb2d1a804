package metric

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
)

// The metrics that [eval] may list.
const (
	Accuracy    = "accuracy"
	TopK        = "top_k"
	PerClass    = "per_class"
	Confusion   = "confusion"
	Worst       = "worst"
	Perplexity  = "perplexity"
	BitsPerByte = "bits_per_byte"
)

var known = []string{Accuracy, TopK, PerClass, Confusion, Worst, Perplexity, BitsPerByte}

// Config is the table [eval].
type Config struct {
	Metrics []string `toml:"metrics"` // what evaluations report besides the loss, as far as the data has it
	TopK    int      `toml:"top_k"`   // top_k: a sample counts if its class is among so many of the largest outputs
	Worst   int      `toml:"worst"`   // worst: how many samples are listed
}

// Default reports the metrics that cost nothing.
func Default() Config {
	return Config{Metrics: []string{Accuracy, Perplexity, BitsPerByte}, TopK: 5, Worst: 16}
}

const (
	mostClasses = 256  // of a confusion matrix
	mostWorst   = 1000 // samples
)

// Problems checks the table by itself.
func (c Config) Problems() usererr.List {
	var l usererr.List
	for i, m := range c.Metrics {
		if !slices.Contains(known, m) {
			l.Addf("metrics", "use "+strings.Join(known, ", "), "unknown metric %q", m)
		} else if slices.Contains(c.Metrics[:i], m) {
			l.Addf("metrics", "remove one of them", "%q is listed twice", m)
		}
	}
	if c.TopK < 1 {
		l.Addf("top_k", "at least 1", "%d is too small", c.TopK)
	}
	if c.Worst < 1 || c.Worst > mostWorst {
		l.Addf("worst", fmt.Sprintf("1 to %d", mostWorst), "%d samples cannot be listed", c.Worst)
	}
	return l
}

// Has reports whether a metric is listed; without a list, whether it is reported by default.
func (c Config) Has(metric string) bool {
	if c.Metrics == nil {
		c = Default()
	}
	return slices.Contains(c.Metrics, metric)
}

// NeedsOutputs reports whether a metric needs the model's outputs for each sample.
func (c Config) NeedsOutputs() bool {
	return c.Has(TopK) || c.Has(PerClass) || c.Has(Confusion) || c.Has(Worst)
}

// Check refuses metrics that a data set cannot have.
func (c Config) Check(spec *sdk.DatasetSpec) error {
	var l usererr.List
	refuse := func(metric, fix, format string, args ...any) {
		if c.Has(metric) {
			l.Addf("eval.metrics", fix, "%q: "+format, append([]any{metric}, args...)...)
		}
	}
	if spec.Classes == 0 {
		for _, m := range []string{TopK, PerClass, Confusion, Worst} {
			refuse(m, "remove it", "the targets of the data set are numbers, not classes")
		}
		return l.Err()
	}
	if spec.Classes > mostClasses {
		refuse(Confusion, "use \"per_class\", which has precision and recall of each", "a matrix of %d classes; at most %d", spec.Classes, mostClasses)
	}
	if spec.Tokens() > 0 {
		refuse(Worst, "remove it", "samples have a class for each position")
	}
	if c.Has(TopK) && c.TopK >= spec.Classes {
		l.Addf("eval.top_k", "set it to less than the number of classes, or remove \"top_k\" from metrics", "every sample is among the top %d of %d classes", c.TopK, spec.Classes)
	}
	return l.Err()
}
