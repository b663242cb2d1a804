package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// Append adds the record's JSON line, with its newline, to b.
func Append(b []byte, r Record) []byte {
	w := encoder{b}
	w.record(r)
	return w.b
}

func (w *encoder) record(r Record) {
	w.b = append(w.b, `{"schema":1,"seq":`...)
	w.b = strconv.AppendUint(w.b, r.Seq, 10)
	w.b = append(w.b, `,"ts":"`...)
	w.time(r.Time.UTC())
	w.b = append(w.b, '"')
	w.integer("rank", int64(r.Rank))
	w.str("event", r.Event.Kind())
	if f, ok := r.Event.(fielder); ok {
		f.fields(w)
	} else {
		w.members(r.Event)
	}
	w.b = append(w.b, '}', '\n')
}

// time writes a UTC time in RFC 3339 format with microseconds. Years have four digits.
func (w *encoder) time(t time.Time) {
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	w.digits(year, 1000, '-')
	w.digits(int(month), 10, '-')
	w.digits(day, 10, 'T')
	w.digits(hour, 10, ':')
	w.digits(minute, 10, ':')
	w.digits(second, 10, '.')
	w.digits(t.Nanosecond()/1000, 100_000, 'Z')
}

// digits writes n with leading zeros, where unit is the power of ten of its first digit,
// and then the suffix.
func (w *encoder) digits(n, unit int, end byte) {
	for ; unit > 0; unit /= 10 {
		w.b = append(w.b, byte('0'+n/unit%10))
	}
	w.b = append(w.b, end)
}

// UnknownError is what Decode returns for a kind that this version has no type for.
type UnknownError struct{ Kind string }

func (e *UnknownError) Error() string { return fmt.Sprintf("unknown event %q", e.Kind) }

// Decode parses one JSON line. It ignores unknown fields and returns an *UnknownError
// for an unknown kind and an error for another schema.
func Decode(line []byte) (Record, error) {
	if r, ok := decodeStep(line); ok {
		return r, nil
	}
	return decode(line)
}

// decode decodes any event.
func decode(line []byte) (Record, error) {
	var head struct {
		Schema int       `json:"schema"`
		Seq    uint64    `json:"seq"`
		Time   time.Time `json:"ts"`
		Rank   int       `json:"rank"`
		Event  string    `json:"event"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return Record{}, fmt.Errorf("event line: %w", err)
	}
	if head.Schema != Schema {
		return Record{}, fmt.Errorf("event line has schema %d, this version reads %d", head.Schema, Schema)
	}
	e := newRecord(head.Event)
	if e == nil {
		return Record{}, &UnknownError{head.Event}
	}
	if p, ok := e.(interface{ absent() }); ok {
		p.absent()
	}
	if err := json.Unmarshal(line, e); err != nil {
		return Record{}, fmt.Errorf("event %q: %w", head.Event, err)
	}
	if p, ok := e.(interface {
		nulls(map[string]json.RawMessage)
	}); ok {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(line, &m); err != nil {
			return Record{}, fmt.Errorf("event %q: %w", head.Event, err)
		}
		p.nulls(m)
	}
	return Record{Seq: head.Seq, Time: head.Time, Rank: head.Rank, Event: e}, nil
}

// KindOf finds the kind of an event in its line without decoding it; "" if it
// has none.
func KindOf(line []byte) string {
	_, rest, _ := bytes.Cut(line, []byte(`"event":"`))
	kind, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return ""
	}
	return string(kind)
}

// absent sets the defaults of missing fields, before decoding.
func (e *StepDone) absent() { e.Accuracy = -1 }
func (e *EvalDone) absent() { e.Accuracy = -1 }
func (e *RunDone) absent()  { e.Accuracy = -1 }

// nulls turns null, which decoding skips, into NaN.
func (e *StepDone) nulls(m map[string]json.RawMessage) {
	nullNaN(m, "loss", &e.Loss)
	nullNaN(m, "loss_mean", &e.LossMean)
	nullNaN(m, "accuracy", &e.Accuracy)
	nullNaN(m, "lr", &e.LR)
	nullNaN(m, "step_ms", &e.StepMS)
	nullNaN(m, "data_ms", &e.DataMS)
	nullNaN(m, "comm_ms", &e.CommMS)
	nullNaN(m, "samples_per_sec", &e.SamplesPerSec)
	nullNaN(m, "tokens_per_sec", &e.TokensPerSec)
	nullNaN(m, "grad_norm", &e.GradNorm)
	nullNaN(m, "scale", &e.Scale)
}

func (e *EvalDone) nulls(m map[string]json.RawMessage) {
	nullNaN(m, "loss", &e.Loss)
	nullNaN(m, "accuracy", &e.Accuracy)
	nullNaN(m, "perplexity", &e.Perplexity)
	nullNaN(m, "bits_per_byte", &e.BitsPerByte)
}

func (e *RunDone) nulls(m map[string]json.RawMessage) { nullNaN(m, "loss", &e.Loss) }

func nullNaN(m map[string]json.RawMessage, key string, v *float64) {
	if string(m[key]) == "null" {
		*v = math.NaN()
	}
}

// encoder appends JSON members. It does not use encoding/json, which has no NaN, and
// would take too long for the event of every training step.
type encoder struct{ b []byte }

func (w *encoder) key(k string) {
	w.b = append(w.b, ',', '"')
	w.b = append(w.b, k...)
	w.b = append(w.b, '"', ':')
}

func (w *encoder) integer(k string, v int64) {
	w.key(k)
	w.b = strconv.AppendInt(w.b, v, 10)
}

func (w *encoder) boolean(k string, v bool) {
	w.key(k)
	w.b = strconv.AppendBool(w.b, v)
}

func (w *encoder) float(k string, v float64) {
	w.key(k)
	w.number(v)
}

func (w *encoder) number(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		w.b = append(w.b, "null"...)
		return
	}
	w.b = strconv.AppendFloat(w.b, v, 'g', -1, 64)
}

func (w *encoder) str(k, v string) {
	w.key(k)
	w.quote(v)
}

// slice writes a list of strings or numbers that is not empty.
func (w *encoder) slice(k string, v any) {
	switch v := v.(type) {
	case []string:
		list(w, k, v, w.quote)
	case []int:
		list(w, k, v, func(n int) { w.b = strconv.AppendInt(w.b, int64(n), 10) })
	case []float64:
		list(w, k, v, w.number)
	default:
		panic(fmt.Sprintf("event: %s is a %T", k, v))
	}
}

func list[T any](w *encoder, k string, v []T, write func(T)) {
	if len(v) == 0 {
		return
	}
	w.key(k)
	for i, e := range v {
		w.b = append(w.b, "[,"[min(i, 1)])
		write(e)
	}
	w.b = append(w.b, ']')
}

func (w *encoder) object(k string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("event: %s: %v", k, err)) // every field can be written
	}
	w.key(k)
	w.b = append(w.b, b...)
}

// quote writes a JSON string; invalid UTF-8 becomes U+FFFD.
func (w *encoder) quote(s string) {
	w.b = append(w.b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			w.b = append(w.b, '\\', c)
		case c == '\n':
			w.b = append(w.b, '\\', 'n')
		case c < ' ' || c == 0x7f:
			w.b = append(w.b, `\u00`...)
			w.b = append(w.b, hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			w.b = append(w.b, c)
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			w.b = utf8.AppendRune(w.b, r)
			i += n
			continue
		}
		i++
	}
	w.b = append(w.b, '"')
}

const hex = "0123456789abcdef"
