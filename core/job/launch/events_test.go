package launch

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An eventReader reads all events of an eventInterval together, and reads on at once
// while there is more than a buffer.
func TestEventReaderBatchesReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 10
		c := &eventReader{r: strings.NewReader(strings.Repeat("x", 3*size+4))}
		start := time.Now()
		var took []time.Duration
		for range 4 {
			if _, err := c.Read(make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(start))
		}
		if took[3] != 0 {
			t.Errorf("a long text was read at %v", took)
		}
		if _, err := c.Read(make([]byte, size)); err == nil || time.Since(start) != eventInterval {
			t.Errorf("the end was read after %v, %v", time.Since(start), err)
		}
	})
}
