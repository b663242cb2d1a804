package registry_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/registry"
)

// A sum with pauses is that of the file, of whatever size.
func TestSum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin")
	for size, pauses := range map[int]int{0: 0, 1: 0, 256<<10 - 1: 0, 256 << 10: 1, 1<<20 + 5: 4} {
		program := make([]byte, size)
		for i := range program {
			program[i] = byte(i * i >> 8)
		}
		if err := os.WriteFile(path, program, 0o644); err != nil {
			t.Fatal(err)
		}
		want, called := sha256.Sum256(program), 0
		for _, pause := range []func(){nil, func() { called++ }} {
			if got, err := registry.Sum(path, pause); err != nil || got != hex.EncodeToString(want[:]) {
				t.Errorf("%d bytes: %q, %v", size, got, err)
			}
		}
		if called != pauses {
			t.Errorf("%d bytes: %d pauses, not %d", size, called, pauses)
		}
	}
	if _, err := registry.Sum(path+"-missing", nil); !os.IsNotExist(err) {
		t.Error(err)
	}
}
