package sdk

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"
)

// Observer gets the events of a run and returns nothing that the run depends on. A job has
// one instance, beside its launcher; if another launcher than trainctl's started the ranks,
// beside rank 0. An observer that is slow, hangs or dies misses events and changes nothing
// else.
type Observer interface {
	Info() Info

	// Open is called once, when the run begins. What it returns is the field Resume of
	// the request to the process that replaces this one if it dies: for example the number
	// of the run at a tracking server.
	Open(ctx context.Context, req ObserverRequest) (resume string, err error)

	// Observe gets events in their order. An error means that these events are lost;
	// later ones are delivered all the same. If the process dies, the batch that it did not
	// complete is delivered again to the process that replaces it.
	Observe(ctx context.Context, e *EventBatch) error

	Close() error
}

// ObserverRequest is the argument of Open.
type ObserverRequest struct {
	Options Options
	Name    string // run.name
	Dir     string // the run's directory, absolute; config.toml is there

	// Config has every key of the configuration, such as "optimizer.lr" or
	// "model.layers[0].units", with its value as encoding/json reads it.
	Config map[string]any

	Resume string // what Open returned in the process that this one replaces; "" if there is none
	Log    *slog.Logger
}

// EventBatch are events that are delivered together.
type EventBatch struct {
	Records []Event // may be empty
	Dropped int     // events that were dropped since the last batch because the observer was slow

	// Summary is the text of summary.json in the last batch of a run, and nil in the
	// others. A run that could not be ended properly has no last batch: then Close is called
	// without it.
	Summary json.RawMessage
}

// Event is a record of a run: one line of events.jsonl.
type Event struct {
	Kind string    `json:"event"` // "step", "eval", "checkpoint_saved", "rank_failed", "run_done", ...
	Seq  uint64    `json:"seq"`   // counts the events of its sender
	Time time.Time `json:"ts"`
	Rank int       `json:"rank"` // of the sender; -1 for the launcher

	JSON json.RawMessage `json:"-"` // the whole record
}

// Decode stores the record in a struct whose fields have json tags such as "step" or
// "loss_mean". Numbers that are not finite are null: use pointers where that matters.
func (e *Event) Decode(into any) error { return json.Unmarshal(e.JSON, into) }

// decodeEvent reads what all records have in common.
func decodeEvent(line []byte) (Event, error) {
	e := Event{JSON: line}
	err := json.Unmarshal(line, &e)
	return e, err
}
