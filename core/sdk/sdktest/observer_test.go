package sdktest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
)

// sound is an observer that passes.
type sound struct{ mistake string }

func (o *sound) Info() sdk.Info {
	return sdk.Info{Kind: sdk.KindObserver, Name: "sound", Version: "1", Summary: "counts", Options: []sdk.Option{{Name: "n", Type: sdk.Int, Default: int64(1), Doc: "A number."}}}
}

func (o *sound) Open(_ context.Context, req sdk.ObserverRequest) (string, error) {
	if req.Resume != "" && o.mistake == "resume" {
		return "", errors.New("a run of this name exists")
	}
	return "run 7", nil
}

func (o *sound) Observe(_ context.Context, e *sdk.EventBatch) error {
	for _, r := range e.Records {
		var step struct {
			Step int      `json:"step"`
			Loss *float64 `json:"loss_mean"`
		}
		switch {
		case r.Kind == "not_yet_invented" && o.mistake == "unknown":
			return errors.New("an unknown event")
		case r.Kind != "step":
		case r.Decode(&step) != nil:
			return errors.New("a step that cannot be read")
		case step.Loss == nil && o.mistake == "null":
			return errors.New("a step without a loss")
		case step.Step > 1 && len(e.Records) == 4 && e.Dropped > 0 && o.mistake == "dropped":
			return errors.New("the first step is missing")
		}
		if _, err := event.Decode(r.JSON); err != nil && r.Kind != "not_yet_invented" {
			return err // trainctl does not send such an event
		}
	}
	return nil
}

func (o *sound) Close() error {
	if o.mistake == "close" {
		o.mistake = "closed"
		return nil
	}
	if o.mistake == "closed" {
		return errors.New("closed twice")
	}
	return nil
}

func TestObserverSuitePasses(t *testing.T) {
	Observer(t, ObserverOptions{New: func(testing.TB) sdk.Observer { return &sound{} }, Refused: map[string]map[string]any{"n": {"n": "many"}}})
}

// Each mistake is found by the check that is named after it.
func TestObserverSuiteFinds(t *testing.T) {
	for mistake, check := range map[string]string{
		"resume": "continues in another process", "unknown": "takes events that it does not know", "null": "takes numbers that are not finite",
		"dropped": "takes batches after dropped events", "close": "closes in every state",
	} {
		for _, c := range observerChecks {
			s := &observerSuite{ObserverOptions: ObserverOptions{New: func(testing.TB) sdk.Observer { return &sound{mistake: mistake} }}, t: t}
			err := c.run(t.Context(), s)
			if c.name == check && err == nil {
				t.Errorf("%s: %q does not find it", mistake, check)
			}
			if c.name != check && err != nil && !strings.Contains(err.Error(), "closed twice") {
				t.Errorf("%s: %q fails: %v", mistake, c.name, err)
			}
		}
	}
}
