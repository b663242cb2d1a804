package similar

// Nearest is the name with the fewest edits from word, "" if all take more than most.
// Among equals it is the first.
func Nearest(word string, names []string, most int) string {
	if i := Index(word, names, most); i >= 0 {
		return names[i]
	}
	return ""
}

// Index is the place of Nearest in names, -1 if there is none.
func Index(word string, names []string, most int) int {
	best, limit := -1, most+1
	for i, name := range names {
		if len(word)-len(name) >= limit || len(name)-len(word) >= limit {
			continue
		}
		if n := Edits(word, name); n < limit {
			best, limit = i, n
		}
	}
	return best
}

// Edits counts insertions, deletions, substitutions and swaps of neighbouring bytes
// between a and b (the optimal string alignment distance).
func Edits(a, b string) int {
	older, old, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			subst := old[j-1]
			if a[i-1] != b[j-1] {
				subst++
			}
			cur[j] = min(old[j]+1, cur[j-1]+1, subst)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], older[j-2]+1)
			}
		}
		older, old, cur = old, cur, older
	}
	return old[len(b)]
}
