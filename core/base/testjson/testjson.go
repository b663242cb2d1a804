package testjson

import (
	"encoding/json"
	"os"
	"testing"
)

// Read decodes a JSON file; the test fails if it cannot.
func Read[T any](t testing.TB, path string) (v T) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}
