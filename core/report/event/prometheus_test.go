package event

import (
	"io"
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

var expositionLine = regexp.MustCompile(`^(# (HELP|TYPE) trainctl_[a-z_]+ .+|trainctl_[a-z_]+(\{([a-z]+="([^"\\]|\\.)*",?)*\})? ([-+]?[0-9.e+-]+|NaN|[+-]Inf))$`)

func TestPrometheus(t *testing.T) {
	p, err := NewPrometheus("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.Emit(Record{Event: &RunStarted{Name: "a \"b\"\n", WorldSize: 2}})
	p.Emit(Record{Event: &StepDone{Step: 7, Samples: 128, LossMean: math.Inf(-1), LR: 1e-9, StepMS: 4}})
	p.Emit(Record{Rank: 1, Event: &StepDone{Step: 7, Samples: 128, LossMean: 3}})
	p.Emit(Record{Event: &StepDone{Step: 8, Samples: 128, LossMean: math.NaN(), Skipped: true, Scale: 1024}})
	p.Emit(Record{Event: &EvalDone{Samples: 10, Accuracy: 0.5}})
	p.Emit(Record{Event: &BackendRestarted{Generation: 2, Step: 8}})
	p.Emit(Record{Rank: 1, Event: &BackendRestarted{Generation: 2, Step: 8}})
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + p.Addr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	for _, l := range strings.Split(strings.TrimSuffix(string(body), "\n"), "\n") {
		if !expositionLine.MatchString(l) {
			t.Errorf("%q is not an exposition line", l)
		}
	}
	for _, l := range []string{"trainctl_steps_total 8", "trainctl_samples_total 256", "trainctl_steps_skipped_total 1", "trainctl_train_loss NaN",
		"trainctl_loss_scale 1024", "trainctl_eval_accuracy 0.5", "trainctl_world_size 2", "trainctl_backend_restarts_total 1"} {
		if !strings.Contains(string(body), "\n"+l+"\n") {
			t.Errorf("%q is not in\n%s", l, body)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
