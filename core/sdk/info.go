package sdk

import (
	"slices"

	"github.com/trainctl/trainctl/core/tensor"
)

// Kind is what a plugin is for.
type Kind string

// The plugin kinds. A binary may serve several, one per process.
const (
	KindBackend   Kind = "backend"
	KindPrecision Kind = "precision"
	KindDataset   Kind = "dataset"
	KindObserver  Kind = "observer"
	KindLayer     Kind = "layer"
)

// Phrase is the kind in a sentence: "a backend", "an observer".
func (k Kind) Phrase() string {
	if k == KindObserver {
		return "an observer"
	}
	return "a " + string(k)
}

// Info describes a plugin before it is configured. It must be constant: the host may request it at
// any time, even just to print it.
type Info struct {
	Kind    Kind
	Name    string // as written in the TOML: "tcp", "mnist"
	Version string // of the plugin, not of the protocol
	Summary string // one line for `trainctl plugins list`

	// Options are the keys the plugin's table may have. Unknown keys are
	// refused by the host with file, line and a suggestion.
	Options []Option

	// Backend capabilities. Empty means none.
	DTypes      []tensor.DType // element types that reductions accept
	Devices     []string       // "cpu", "cuda"
	Ops         []Op           // supported collectives
	MaxWorld    int            // 0 = no limit
	Determinism string         // "bitwise" when equal inputs give equal bits on all ranks and from run to run
	DeviceArena bool           // it accepts arenas on the rank's GPU, see DeviceMemory
}

// OptionType is the type of an option's value in TOML.
type OptionType string

// The option types. A duration is a string such as "30s"; a list is homogeneous.
const (
	String     OptionType = "string"
	Int        OptionType = "int"
	Float      OptionType = "float"
	Boolean    OptionType = "bool"
	Duration   OptionType = "duration"
	FloatList  OptionType = "float list"
	IntList    OptionType = "int list"
	StringList OptionType = "string list"
)

// Option is one key of a plugin's table.
type Option struct {
	Name     string
	Type     OptionType
	Default  any      // nil: no default; otherwise string, int64, float64, bool, or a slice of these
	Unit     string   // "bytes", "samples"; empty if none
	Min, Max *float64 // inclusive limits for numbers and list elements; nil = none
	Enum     []string // allowed strings; empty = any
	Required bool
	Doc      string // one sentence: what it does and when to change it
}

// Does reports whether a backend publishes an operation, and also the element type
// if the operation reduces elements.
func (i *Info) Does(op Op, d tensor.DType) bool {
	return slices.Contains(i.Ops, op) && (!op.Definition().Reduces || slices.Contains(i.DTypes, d))
}
