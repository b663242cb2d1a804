package event

import (
	"reflect"
	"strings"
)

// fielder is an event that writes its own members: StepDone, because it is written
// in every step and reflection costs several times as much, and PluginLog, because
// two of its members go together.
type fielder interface{ fields(w *encoder) }

func (e *StepDone) fields(w *encoder) {
	w.integer("step", int64(e.Step))
	w.integer("epoch", int64(e.Epoch))
	w.float("loss", e.Loss)
	w.float("loss_mean", e.LossMean)
	if !(e.Accuracy < 0) {
		w.float("accuracy", e.Accuracy)
	}
	w.float("lr", e.LR)
	w.float("step_ms", e.StepMS)
	w.float("data_ms", e.DataMS)
	w.float("comm_ms", e.CommMS)
	w.integer("samples", int64(e.Samples))
	w.float("samples_per_sec", e.SamplesPerSec)
	if e.Tokens != 0 {
		w.integer("tokens", int64(e.Tokens))
		w.float("tokens_per_sec", e.TokensPerSec)
	}
	if e.GradNorm != 0 {
		w.float("grad_norm", e.GradNorm)
	}
	if e.Scale != 0 {
		w.float("scale", e.Scale)
	}
	if e.Skipped {
		w.boolean("skipped", true)
	}
}

func (e *PluginLog) fields(w *encoder) {
	w.str("plugin", e.Plugin)
	w.str("level", e.Level)
	w.str("message", e.Message)
	if e.Total != 0 {
		w.integer("done", e.Done)
		w.integer("total", e.Total)
	}
}

// members writes the fields of an event in their order, under the names of their json
// tags. Strings and booleans with omitempty are left out if they are zero, empty lists
// always, and numbers with `omit:"negative"` if they are negative. Structs are written by
// encoding/json: their numbers are of type Number.
func (w *encoder) members(e Event) {
	v := reflect.ValueOf(e).Elem()
	for i := range v.NumField() {
		f, tag := v.Field(i), v.Type().Field(i).Tag
		key, option, _ := strings.Cut(tag.Get("json"), ",")
		if option == "omitempty" && f.IsZero() || tag.Get("omit") == "negative" && f.Float() < 0 {
			continue
		}
		switch f.Kind() {
		case reflect.String:
			w.str(key, f.String())
		case reflect.Bool:
			w.boolean(key, f.Bool())
		case reflect.Float64:
			w.float(key, f.Float())
		case reflect.Slice:
			w.slice(key, f.Interface())
		case reflect.Pointer:
			w.object(key, f.Interface())
		default:
			w.integer(key, f.Int())
		}
	}
}
