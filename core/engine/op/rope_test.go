package op

import (
	"math"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// The frequencies of Llama 3.1, as transformers 5.23 computes them in float32.
func TestRopeScalingIsThatOfLlama3(t *testing.T) {
	a := AttentionAttr{Dim: 128}
	if err := a.scaleRope(Args{"rope_theta": 5e5, "rope_type": "llama3", "rope_factor": 8.0}, 100); err != nil {
		t.Fatal(err)
	}
	got, _ := a.Frequencies()
	for j, want := range map[int]float64{
		0: 1, 1: 0.814617217, 28: 0.00321144611, 29: 0.00216657063, 30: 0.00137189368, 32: 0.000524846022, 34: 0.000178507791,
		35: 9.55621217e-05, 36: 7.78465546e-05, 63: 3.06892588e-07,
	} {
		if math.Abs(float64(got[j])-want) > 2e-6*want {
			t.Errorf("frequency %d is %v, want %v", j, got[j], want)
		}
	}
}

func TestRopeScalingsThatMakeNoSense(t *testing.T) {
	for want, a := range map[string]Args{
		`unknown scaling of rotary positions "su" (default or linear or dynamic or yarn or longrope or llama3)`: {"rope_type": "su", "rope_factor": 4.0},
		`rope_type = "longrope" needs it (copy long_factor from rope_scaling of the model's config.json)`:       {"rope_type": "longrope", "rope_short_factor": []float64{1, 2}},
		`-2 is not positive`:                                                    {"rope_type": "longrope", "rope_short_factor": []float64{1, -2}, "rope_long_factor": []float64{1, 2}},
		`rope_type = "yarn" takes no rope_long_factor`:                          {"rope_type": "yarn", "rope_factor": 4.0, "rope_long_factor": []float64{1, 2}},
		`rope_type = "llama3" takes no rope_beta_fast`:                          {"rope_type": "llama3", "rope_factor": 4.0, "rope_beta_fast": 16.0},
		`rope_type = "dynamic" takes no rope_low_freq_factor`:                   {"rope_type": "dynamic", "rope_factor": 4.0, "rope_low_freq_factor": 2.0},
		`rope_mscale and rope_mscale_all_dim belong together`:                   {"rope_type": "yarn", "rope_factor": 4.0, "rope_mscale": 1.0},
		`rope_type = "linear" needs it`:                                         {"rope_type": "linear"},
		`rope_type = "default" takes no rope_factor`:                            {"rope_factor": 2.0},
		`rope_type = "linear" takes no rope_low_freq_factor`:                    {"rope_type": "linear", "rope_factor": 2.0, "rope_low_freq_factor": 1.0},
		`5 is not above rope_low_freq_factor = 6`:                               {"rope_type": "llama3", "rope_factor": 2.0, "rope_low_freq_factor": 6.0, "rope_high_freq_factor": 5.0},
		`there are no rotary positions to scale (set rope_theta, or remove it)`: {"rope_type": "linear", "rope_factor": 2.0},
	} {
		a["heads"] = 2
		if !strings.HasPrefix(want, "there") {
			a["rope_theta"] = 100.0
		}
		var l usererr.List = Of(Attention).Problems(a)
		if err := l.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v does not say %q", a, err, want)
		}
	}
}

func TestLongRopeNeedsAFactorForEachPair(t *testing.T) {
	a := AttentionAttr{Dim: 8}
	err := a.scaleRope(Args{"rope_type": "longrope", "rope_short_factor": []float64{1, 2, 3, 4}, "rope_long_factor": []float64{1, 2, 3}}, 100)
	if want := "rope_long_factor has 3 numbers; fix: give 4, one for each pair of a head's 8 elements"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
