package sdk

// Placer is a built-in backend that can also run in the rank's process. If a plugin
// process dies, the rank survives; in the rank's process, a backend needs no separate
// context on the GPU.
type Placer interface {
	// Place decides where an instance runs, before it is opened. It must not change
	// anything or take long. Options that conflict with the request are a
	// *usererr.Error with keys of the options table, reported before the run starts.
	Place(PlaceRequest) (Placement, error)
}

// PlaceRequest holds what the decision may depend on.
type PlaceRequest struct {
	Options  Options // checked
	Device   string  // what the rank computes on: "cpu", "cuda"
	Overlap  bool    // collectives run while the rank computes
	Restarts int     // how often the rank may replace a backend that died
	Getenv   func(string) string
}

// Placement is where a backend runs, and why, as text for a log.
type Placement struct {
	InProcess bool
	Why       string
}
