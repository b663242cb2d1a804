package bytesize

import "testing"

func TestText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 25 << 20: "25 MiB", 1 << 50: "1024 TiB"} {
		if got := Text(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
