package host

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"
	"time"
)

// SetMargin changes the margin for one test.
func SetMargin(t *testing.T, d time.Duration) {
	old := margin
	margin = d
	t.Cleanup(func() { margin = old })
}

// Sum is the SHA-256 sum of a file.
func Sum(t *testing.T, path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
