package rank

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxHosts bounds what a node list may expand to.
const maxHosts = 1 << 16

// expandHosts expands SLURM's compact node list: "a[1-3],b7" is a1, a2, a3,
// b7. Numbers keep their leading zeros ("n[008-010]"), a name may have several
// pairs of brackets, and commas or spaces separate names.
func expandHosts(list string) ([]string, error) {
	var out []string
	for _, word := range splitOutside(list) {
		names, err := expandWord(word)
		if err != nil {
			return nil, fmt.Errorf("node list %q: %w", list, err)
		}
		if out = append(out, names...); len(out) > maxHosts {
			return nil, fmt.Errorf("node list %q: more than %d hosts", list, maxHosts)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("node list %q has no host", list)
	}
	return out, nil
}

// splitOutside cuts at commas and spaces outside brackets.
func splitOutside(list string) []string {
	depth := 0
	return strings.FieldsFunc(list, func(c rune) bool {
		switch c {
		case '[':
			depth++
		case ']':
			depth--
		case ',', ' ':
			return depth == 0
		}
		return false
	})
}

func expandWord(word string) ([]string, error) {
	head, rest, found := strings.Cut(word, "[")
	if strings.Contains(head, "]") {
		return nil, fmt.Errorf("%q has a closing bracket without an opening one", word)
	}
	if !found {
		return []string{word}, nil
	}
	body, tail, found := strings.Cut(rest, "]")
	if !found {
		return nil, fmt.Errorf("%q has an opening bracket without a closing one", word)
	}
	tails, err := expandWord(tail)
	if err != nil {
		return nil, err
	}
	var out []string
	for part := range strings.SplitSeq(body, ",") {
		numbers, err := expandRange(part)
		if err != nil {
			return nil, err
		}
		if len(out)+len(numbers)*len(tails) > maxHosts {
			return nil, errors.New("too many hosts")
		}
		for _, n := range numbers {
			for _, t := range tails {
				out = append(out, head+n+t)
			}
		}
	}
	return out, nil
}

func expandRange(part string) ([]string, error) {
	from, to, isRange := strings.Cut(part, "-")
	if !isRange {
		to = from
	}
	lo, err1 := strconv.ParseUint(from, 10, 32)
	hi, err2 := strconv.ParseUint(to, 10, 32)
	if err1 != nil || err2 != nil || hi < lo || hi-lo >= maxHosts {
		return nil, fmt.Errorf("%q is not a range of numbers", part)
	}
	var out []string
	for n := lo; n <= hi; n++ {
		out = append(out, fmt.Sprintf("%0*d", len(from), n))
	}
	return out, nil
}
