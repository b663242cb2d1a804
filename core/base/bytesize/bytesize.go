package bytesize

import (
	"fmt"
	"strconv"
	"strings"
)

// Text writes n bytes in the largest unit that fits, up to TiB, with at most one
// decimal: "1.5 MiB", "25 MiB", "512 B".
func Text[N ~int | ~int64 | ~uint64](n N) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for f >= 1024 && unit < 3 {
		f, unit = f/1024, unit+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0") + " " + []string{"KiB", "MiB", "GiB", "TiB"}[unit]
}
