package recovery

import (
	"fmt"
	"testing"
)

func TestRanksAgreeWhereTheyGoOn(t *testing.T) {
	result := []uint64{1, 2}
	for name, c := range map[string]struct {
		all  []progress
		want string
	}{
		"all in one stage":                 {[]progress{{Stage: 4, Reduced: 3, Seq: 9, Name: "gradients", Cause: "lost"}, {Stage: 4, Reduced: 3, Seq: 11, Name: "gradients", Cause: "died", Own: true}}, "stage 4, seq 11, rebroadcast [], rank 1, died"},
		"behind a reduction":               {[]progress{{Stage: 5, Reduced: 4, Seq: 12, Name: "gradients", Result: result, Cause: "lost"}, {Stage: 4, Reduced: 3, Seq: 11, Name: "gradients", Cause: "died"}}, "stage 5, seq 12, rebroadcast [], rank 0, lost"},
		"behind a broadcast":               {[]progress{{Stage: 5, Reduced: 3, Passed: []string{"buffers"}, Name: "gradients", Cause: "lost"}, {Stage: 4, Reduced: 3, Name: "buffers", Broadcast: true, Cause: "died", Own: true}}, "stage 5, seq 0, rebroadcast [buffers], rank 1, died"},
		"behind two broadcasts":            {[]progress{{Stage: 6, Reduced: 3, Passed: []string{"buffers", "buffers"}, Name: "end"}, {Stage: 4, Reduced: 3, Name: "buffers", Broadcast: true, Cause: "died"}}, "stage 6, seq 0, rebroadcast [buffers], rank 1, died"},
		"behind the second of two":         {[]progress{{Stage: 6, Reduced: 3, Passed: []string{"buffers", "state"}, Name: "end"}, {Stage: 5, Reduced: 3, Passed: []string{"buffers"}, Name: "state", Broadcast: true, Cause: "died"}}, "stage 6, seq 0, rebroadcast [state], rank 1, died"},
		"behind a reduction and broadcast": {[]progress{{Stage: 4, Reduced: 3, Name: "gradients", Cause: "died"}, {Stage: 5, Reduced: 4, Result: result, Name: "buffers", Broadcast: true, Cause: "lost"}, {Stage: 6, Reduced: 4, Result: result, Passed: []string{"buffers"}, Name: "totals", Cause: "lost"}}, "stage 6, seq 0, rebroadcast [buffers], rank 0, died"},
		"at the end":                       {[]progress{{Stage: 6, Name: "end"}, {Stage: 6, Name: "end"}}, "finished"},
		"two reductions behind":            {[]progress{{Stage: 6, Reduced: 5, Name: "gradients", Result: result}, {Stage: 4, Reduced: 3, Name: "gradients", Cause: "died"}}, "error"},
		"nobody has the model":             {[]progress{{New: true}, {New: true}}, "error"},
		"another reduction":                {[]progress{{Stage: 6, Reduced: 3, Passed: []string{"buffers", "state"}, Name: "gradients", Result: result}, {Stage: 4, Reduced: 3, Name: "totals", Cause: "died"}}, "error"},
	} {
		v, err := agree(c.all)
		got := fmt.Sprintf("stage %d, seq %d, rebroadcast %v, %s", v.stage, v.seq, v.rebroadcast, v.cause)
		switch {
		case err != nil:
			got = "error"
		case v.finished:
			got = "finished"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
