package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
)

// parameter is a key that is varied.
type parameter struct {
	config.Entry
	values []string // as TOML, to choose from; nil: a range

	low, high float64 // of a range, both possible
	log       bool    // uniform in the logarithm
	whole     bool    // integers
}

// read reads what the file gives; a range may be drawn from only.
func (p *parameter) read(l *usererr.List, ranges bool) bool {
	if list, ok := p.Value.([]any); ok {
		for _, v := range list {
			p.values = append(p.values, config.FormatValue(v))
		}
		if len(list) == 0 {
			l.Addf(p.Path, "give at least one value", "the list is empty")
		}
		return len(list) > 0
	}
	if table, ok := p.Value.(map[string]any); ok && ranges {
		return p.readRange(l, table)
	}
	help := "write a list: [0.1, 0.01]"
	if ranges {
		help = "write a list of choices, [0.1, 0.01], or a range, {min = 0.001, max = 0.1, log = true}"
	}
	l.Addf(p.Path, help, "%s cannot be varied", config.FormatValue(p.Value))
	return false
}

func (p *parameter) readRange(l *usererr.List, table map[string]any) bool {
	before := len(*l)
	number := func(key string) (v float64, whole bool) {
		switch x := table[key].(type) {
		case int64:
			return float64(x), true
		case float64:
			if math.IsNaN(x) || math.IsInf(x, 0) {
				l.Addf(p.Path+"."+key, "", "want a finite number")
			}
			return x, false
		case nil:
			l.Addf(p.Path, "write both: {min = 0.001, max = 0.1}", "%s is missing", key)
		default:
			l.Addf(p.Path+"."+key, "", "want a number, got %s", config.FormatValue(x))
		}
		return 0, false
	}
	for key, v := range table {
		_, isBool := v.(bool)
		switch {
		case !slices.Contains([]string{"min", "max", "log"}, key):
			l.Addf(p.Path+"."+key, "known here: min, max, log", "unknown key")
		case key == "log" && !isBool:
			l.Addf(p.Path+"."+key, "write true or false", "want true or false, got %s", config.FormatValue(v))
		}
	}
	low, whole1 := number("min")
	high, whole2 := number("max")
	p.low, p.high, p.whole = low, high, whole1 && whole2
	p.log, _ = table["log"].(bool)
	if len(*l) == before && !(p.low < p.high) {
		l.Addf(p.Path, "", "max must be greater than min")
	}
	if len(*l) == before && p.log && p.low <= 0 {
		l.Addf(p.Path+".min", "give a number above 0, or remove log", "a logarithm needs numbers above 0")
	}
	return len(*l) == before
}

// digits is how many digits drawn numbers have, so that they are the same on every machine and can be
// read in a table.
const digits = 6

// draw returns a value as TOML.
func (p *parameter) draw(g *rng.MT) (value string, choice int) {
	u := g.Float64()
	if p.values != nil {
		i := min(int(u*float64(len(p.values))), len(p.values)-1)
		return p.values[i], i
	}
	low, high := p.low, p.high
	if p.whole {
		high++ // each integer has the interval up to the next
	}
	v := low + float64(u*(high-low))
	if p.log {
		a, b := math.Log(low), math.Log(high)
		v = math.Exp(a + float64(u*(b-a)))
	}
	if p.whole {
		v = max(p.low, min(math.Floor(v), p.high))
		return strconv.FormatInt(int64(v), 10), -1
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	return config.FormatValue(max(p.low, min(v, p.high))), -1
}

// setting is a value of a parameter in a trial.
func (p *parameter) setting(value string, choice int) Setting {
	s := Setting{Key: p.Key, Value: value, key: p.Path, value: p.Path}
	if choice >= 0 {
		s.value = p.Element(choice)
	}
	return s
}

// Trials are the trials of the file, each different. Those of a random sweep are the same for the same
// seed, and the first ones stay the same if there are to be more.
func (f *File) Trials() ([]*Trial, error) {
	if f.doc.Given("random") {
		return f.drawn()
	}
	out, seen := []*Trial{}, map[string]bool{}
	for n := range f.combinations() {
		settings := make([]Setting, len(f.parameters))
		rest := n
		for i, p := range slices.Backward(f.parameters) { // the last key changes first
			k := rest % len(p.values)
			rest /= len(p.values)
			settings[i] = p.setting(p.values[k], k)
		}
		if text := describe(settings); !seen[text] { // a list may have a value twice
			seen[text] = true
			out = append(out, newTrial(len(out)+1, settings))
		}
	}
	return out, nil
}

// fruitless is how many draws in a row may repeat earlier trials.
const fruitless = 1000

func (f *File) drawn() ([]*Trial, error) {
	g := rng.NewMT(f.seed)
	out, seen := []*Trial{}, map[string]bool{}
	for repeated := 0; len(out) < f.trials; {
		settings := make([]Setting, len(f.parameters))
		for i, p := range f.parameters {
			settings[i] = p.setting(p.draw(g))
		}
		if text := describe(settings); !seen[text] {
			seen[text], repeated = true, 0
			out = append(out, newTrial(len(out)+1, settings))
			continue
		}
		if repeated++; repeated == fruitless {
			var l usererr.List
			l.Addf("random.trials", fmt.Sprintf("set it to %d, give wider ranges, or try all combinations with [grid]", len(out)), "only %d different trials were found", len(out))
			return nil, f.doc.Check(l)
		}
	}
	return out, nil
}
