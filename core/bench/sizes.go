package bench

import (
	"fmt"
	"strconv"
	"strings"
)

var sizeUnits = []struct {
	name  string
	bytes int
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

// ParseSizes parses "1KiB,64KiB,1MiB" and plain numbers of bytes.
func ParseSizes(list string) ([]int, error) {
	var out []int
	for _, text := range strings.Split(list, ",") {
		n, err := parseSize(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

func parseSize(text string) (int, error) {
	for _, u := range sizeUnits {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n <= 0 || n > 1<<40/u.bytes {
			break
		}
		return n * u.bytes, nil
	}
	return 0, fmt.Errorf("%q is not a size such as 64KiB, 25MiB or 4096", text)
}
