package report

// Metrics are the newest values of what a run measures, each with the step that
// it was measured at: a checkpoint contains only those of its own step.
type Metrics map[string]measured

type measured struct {
	Value float64
	Step  int
}

// Set records a value measured at a step.
func (m Metrics) Set(name string, value float64, step int) { m[name] = measured{value, step} }

// Value is the newest value of a name, whatever its step; 0 without one.
func (m Metrics) Value(name string) float64 { return m[name].Value }

// Of are the values that were measured at a step.
func (m Metrics) Of(step int) map[string]float64 {
	out := make(map[string]float64, len(m))
	for name, v := range m {
		if v.Step == step {
			out[name] = v.Value
		}
	}
	return out
}
