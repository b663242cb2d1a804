package pages

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// A process that keeps much is collected long before it has doubled.
func TestSettle(t *testing.T) {
	t.Setenv("GOGC", "") // as if there were none: restored at the end
	os.Unsetenv("GOGC")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	kept := make([]byte, 8*garbage)
	Settle()
	if got := debug.SetGCPercent(100); got > 100/8 || got < 1 {
		t.Errorf("with %d bytes kept, GOGC is %d", len(kept), got)
	}
	runtime.KeepAlive(kept)

	t.Setenv("GOGC", "70")
	debug.SetGCPercent(70)
	Settle()
	if got := debug.SetGCPercent(100); got != 70 {
		t.Errorf("GOGC=70 has become %d", got)
	}
}

func TestPercent(t *testing.T) {
	for kept, want := range map[uint64]int{0: 100, garbage / 2: 100, garbage: 100, 4 * garbage: 25, 1 << 40: 1} {
		if got := percent(kept); got != want {
			t.Errorf("%d bytes kept: %d, want %d", kept, got, want)
		}
	}
}
