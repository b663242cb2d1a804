package launch

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// However a stream is cut into writes, its pieces put together are the stream.
func TestSplitterLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.SliceOf(rapid.StringMatching(`[ab\n]{0,6}`)).Draw(t, "chunks")
		if rapid.Bool().Draw(t, "long") {
			chunks = append(chunks, strings.Repeat("y", maxChunk+rapid.IntRange(-1, maxChunk).Draw(t, "more")))
		}
		var got strings.Builder
		open := false
		s := &splitter{out: func(piece []byte, first, last bool) {
			if first == open || len(piece) > maxChunk+8 {
				t.Fatalf("piece of %d bytes: first %v in an open line %v", len(piece), first, open)
			}
			got.Write(piece)
			if open = !last; last {
				got.WriteByte('\n')
			}
		}}
		for _, c := range chunks {
			s.Write([]byte(c))
		}
		s.flush()
		want := strings.Join(chunks, "")
		if want != "" && !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		if got.String() != want {
			t.Fatalf("%d bytes became %d", len(want), got.Len())
		}
	})
}

func TestTailKeepsTheLast(t *testing.T) {
	var l tail
	for i := range keepLines + 5 {
		l.add(fmt.Append(nil, i))
	}
	l.add([]byte(strings.Repeat("z", 10*keepBytes)))
	if len(l.lines) != keepLines || l.lines[0] != "6" || len(l.lines[keepLines-1]) > keepBytes+4 {
		t.Errorf("%d lines from %q", len(l.lines), l.lines[0])
	}
}

func TestTailKeepsWhatALongErrorBeginsWith(t *testing.T) {
	var l tail
	for _, line := range []string{"hello", "panic: the first line", "error: it does not fit:"} {
		l.add([]byte(line))
	}
	for i := range 3 * keepLines {
		l.add(fmt.Append(nil, i))
	}
	if len(l.lines) != keepLines || l.lines[0] != "panic: the first line" || l.lines[1] != fmt.Sprint(2*keepLines+1) {
		t.Errorf("%q", l.lines)
	}
}
