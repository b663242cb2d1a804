package sdk

// Placer is a backend that can also run in the rank's process, where the core
// has it built in. A plugin process gives up nothing but its own life when it
// dies; in the rank's process it needs no context of its own on the GPU.
type Placer interface {
	// Place decides for an instance that was not opened. It only looks, and
	// takes no time. Options that do not fit the request are a *usererr.Error with
	// keys of the options' table: the user's to fix, and found before anything runs.
	Place(PlaceRequest) (Placement, error)
}

// PlaceRequest is what a decision may depend on.
type PlaceRequest struct {
	Options  Options // checked
	Device   string  // what the rank computes on: "cpu", "cuda"
	Overlap  bool    // collectives run while the rank computes
	Restarts int     // how often the rank wants to replace a backend that died
	Getenv   func(string) string
}

// Placement is where a backend runs, and why, in words for a log.
type Placement struct {
	InProcess bool
	Why       string
}
