package sdk

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/usererr"
)

func limit(x float64) *float64 { return &x }

var table = []Option{
	{Name: "root", Type: String, Default: "data", Doc: "Where the files are."},
	{Name: "level", Type: String, Enum: []string{"O0", "O1"}, Doc: "How much."},
	{Name: "conns", Type: Int, Default: int64(1), Min: limit(1), Max: limit(8), Unit: "connections", Doc: "How many."},
	{Name: "rate", Type: Float, Default: 0.5, Min: limit(0)},
	{Name: "download", Type: Boolean, Default: true},
	{Name: "wait", Type: Duration, Default: "30s", Max: limit(60)},
	{Name: "mean", Type: FloatList, Max: limit(1)},
	{Name: "shape", Type: IntList},
	{Name: "names", Type: StringList},
}

func TestCheckOptionsFillsIn(t *testing.T) {
	got, problems := CheckOptions("t", table, map[string]any{
		"rate": int64(2), "mean": []any{0.25, int64(1)}, "shape": []any{int64(3), int64(4)}, "names": []any{"a"}, "wait": "1m",
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := Options{
		"root": "data", "conns": int64(1), "rate": 2.0, "download": true, "wait": "1m",
		"mean": []float64{0.25, 1}, "shape": []int64{3, 4}, "names": []string{"a"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
	if got.Duration("wait") != time.Minute || got.Has("level") {
		t.Errorf("wait %v, level %v", got.Duration("wait"), got.Has("level"))
	}
}

func TestCheckOptionsRefuses(t *testing.T) {
	local := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		key   string
		value any
		want  usererr.Problem
	}{
		{"rot", "x", usererr.Problem{Detail: "unknown key", Help: "did you mean root?"}},
		{"Root", "x", usererr.Problem{Detail: "unknown key: names are case-sensitive", Help: "write root"}},
		{"zzzzzzzz", 1, usererr.Problem{Detail: "unknown key", Help: "known keys: root, level, conns, rate, download, wait, mean, shape, names"}},
		{"root", int64(5), usererr.Problem{Detail: "want a string, got 5", Help: "Where the files are."}},
		{"level", "O7", usererr.Problem{Detail: `"O7" is not one of "O0", "O1"`, Help: `one of "O0", "O1"; How much.`}},
		{"conns", int64(0), usererr.Problem{Detail: "0 is below the minimum of 1 connections", Help: "How many."}},
		{"conns", int64(9), usererr.Problem{Detail: "9 is above the maximum of 8 connections", Help: "How many."}},
		{"conns", 1.5, usererr.Problem{Detail: "want an integer, got the number 1.5", Help: "How many."}},
		{"rate", "1", usererr.Problem{Detail: `want a number, got the string "1"`}},
		{"rate", math.NaN(), usererr.Problem{Detail: "NaN is not a finite number"}},
		{"rate", math.Inf(1), usererr.Problem{Detail: "+Inf is not a finite number"}},
		{"rate", local, usererr.Problem{Detail: "want a number, got the date or time 2026-01-02 00:00:00 +0000 UTC"}},
		{"download", "yes", usererr.Problem{Detail: `want true or false, got the string "yes"`}},
		{"wait", int64(5), usererr.Problem{Detail: "want a duration, got 5", Help: `write it as "30s" or "5m"`}},
		{"wait", "5 min", usererr.Problem{Detail: `"5 min" is not a duration`, Help: `write it as "30s" or "5m"`}},
		{"wait", "2m", usererr.Problem{Detail: "2m is above the maximum of 60s", Help: `write it as "30s" or "5m"`}},
		{"mean", []any{0.5, int64(2)}, usererr.Problem{Detail: "element 1: 2 is above the maximum of 1"}},
		{"mean", 0.5, usererr.Problem{Detail: "want a list of numbers, got the number 0.5"}},
		{"names", []any{"a", true}, usererr.Problem{Detail: "element 1: want a list of strings, got true"}},
		{"shape", map[string]any{}, usererr.Problem{Detail: "want a list of integers, got a table"}},
	} {
		_, got := CheckOptions("backend.options", table, map[string]any{c.key: c.value})
		c.want.Key = "backend.options." + c.key
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%s = %v:\n got %+v\nwant %+v", c.key, c.value, got, c.want)
		}
	}
}

func TestCheckOptionsReportsEverythingAtOnce(t *testing.T) {
	opts := []Option{{Name: "must", Type: Int, Required: true, Doc: "Set it."}, {Name: "may", Type: Int}}
	_, got := CheckOptions("", opts, map[string]any{"b": 1, "a": 1, "may": "x"})
	var keys []string
	for _, p := range got {
		keys = append(keys, p.Key)
	}
	if want := []string{"a", "b", "must", "may"}; !reflect.DeepEqual(keys, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	_, got = CheckOptions("t", nil, map[string]any{"x": 1})
	if len(got) != 1 || got[0].Help != "this plugin has no options" {
		t.Errorf("without options: %v", got)
	}
}

// What the host encodes, the plugin decodes to the same values and types.
func TestOptionsSurviveTheWire(t *testing.T) {
	given := map[string]any{"rate": int64(2), "conns": int64(7), "mean": []any{int64(1), 0.1}, "shape": []any{int64(1 << 60)}, "level": "O1", "wait": "1s"}
	want, problems := CheckOptions("", table, given)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	encoded, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeOptions(table, encoded)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, %v; want %#v", got, err, want)
	}
	if _, err := decodeOptions(table, []byte(`{"rote": 1}`)); len(usererr.Problems(err)) != 1 {
		t.Errorf("a host that did not check: %v", err)
	}
}
