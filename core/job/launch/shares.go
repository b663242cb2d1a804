package launch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// Shares are the shares of the ranks in the samples of a step: "auto", or a list such as [3, 1] in
// TOML. The zero value gives all ranks equal shares.
type Shares struct {
	weights []int // by rank
	auto    bool
	raw     string // what was written, when it is neither
}

// AutoShares follow the measured speeds of the ranks.
var AutoShares = Shares{auto: true}

// IsAuto reports whether ranks measure how fast they are.
func (s Shares) IsAuto() bool { return s.auto }

// Weights are the shares by rank; nil where none are given. The caller must not change them.
func (s Shares) Weights() []int { return s.weights }

// Given reports whether ranks may have unequal shares.
func (s Shares) Given() bool { return s.auto || len(s.weights) > 0 }

// UnmarshalTOML takes a list of numbers or "auto". It never fails: Config.Problems reports bad
// values together with all others.
func (s *Shares) UnmarshalTOML(v any) error {
	*s = Shares{raw: fmt.Sprint(v)}
	switch v := v.(type) {
	case string:
		if v == "auto" {
			*s = AutoShares
		}
	case []any:
		var weights []int
		for _, e := range v {
			if n, ok := e.(int64); ok && n >= 1 && n <= mostShare {
				weights = append(weights, int(n))
			}
		}
		if len(weights) == len(v) {
			*s = Shares{weights: weights}
		}
	}
	return nil
}

// mostShare is the largest number in a list of shares.
const mostShare = 1 << 20

func (s Shares) check(l *usererr.List) {
	if s.raw != "" {
		l.Addf("shares", `give each rank a number from 1 up, as in [3, 1], or "auto"`, "%s is neither a list of shares nor \"auto\"", s.raw)
	}
}

func (s Shares) String() string {
	switch {
	case s.raw != "":
		return s.raw
	case s.auto:
		return "auto"
	}
	text := make([]string, len(s.weights))
	for i, n := range s.weights {
		text[i] = strconv.Itoa(n)
	}
	return "[" + strings.Join(text, ", ") + "]"
}

// MarshalText is String: a list is written as TOML writes it.
func (s Shares) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// SchemaForms are the JSON Schemas of what UnmarshalTOML takes.
func (Shares) SchemaForms() []map[string]any {
	return []map[string]any{{"type": "array", "items": map[string]any{"type": "integer", "minimum": 1, "maximum": mostShare}}, {"enum": []string{"auto"}}}
}
