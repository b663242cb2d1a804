package jsonvalue

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestObject(t *testing.T) {
	d := json.NewDecoder(strings.NewReader(`{"n": 3, "large": 9007199254740993, "rate": 0.5, "shape": [1, 2.5, "x"], "flag": true}`))
	d.UseNumber()
	var got map[string]any
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	Object(got)
	want := map[string]any{"n": int64(3), "large": int64(9007199254740993), "rate": 0.5, "shape": []any{int64(1), 2.5, "x"}, "flag": true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
