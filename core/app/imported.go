package app

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/onnx/importer"
	"github.com/trainctl/trainctl/core/tensor"
)

// mostOutputs is how many numbers the data set synthetic has in a target.
const mostOutputs = 1 << 16

// ImportedConfig is the TOML of a run that trains an imported network, from the weights in the file init. Its data set
// is one that fits the network: notes are comments for the head of the file.
func ImportedConfig(n *importer.Network, name, init string, notes ...string) []byte {
	f := config.Defaults()
	f.Run.Name, f.Model = name, n.Model
	f.Model.Init = init
	f.Train.PerRankBatch = 16
	f.Optimizer.LR = 0.001
	var note string
	f.Dataset.Plugin, f.Dataset.Options, note = standIn(n)
	if target, _ := n.Target(); target.DType.Float() {
		f.Model.Loss = "mse"
	}
	text := ""
	for _, line := range append(notes, "", "The data set is a placeholder of the right shape: "+note+" Replace it by yours.") {
		text += strings.TrimSpace("# "+strings.Map(visible, line)) + "\n"
	}
	return append([]byte(text+"\n"), f.Changes()...)
}

// visible keeps a comment on its line, as notes have names from files of others, and TOML allows no control characters.
func visible(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

// standIn is a data set that fits a network.
func standIn(n *importer.Network) (plugin string, options map[string]any, note string) {
	target, classes := n.Target()
	if n.Sample.DType == tensor.I32 {
		tokenizer, note := "bytes", "generated sentences."
		if classes < 256 {
			tokenizer, note = "chars", fmt.Sprintf("generated sentences, if the network has an output for each of their characters; it has %d.", classes)
		}
		return "text", map[string]any{"context": n.Sample.Shape.Elems(), "tokenizer": tokenizer}, note
	}
	options = map[string]any{"shape": []int(n.Sample.Shape)}
	if !target.DType.Float() {
		options["classes"] = classes
		return "synthetic", options, fmt.Sprintf("noise with patterns of %d classes.", classes)
	}
	outputs := target.Shape.Elems()
	options["targets"], options["outputs"] = "regression", min(outputs, mostOutputs)
	if outputs > mostOutputs {
		return "synthetic", options, fmt.Sprintf("noise with %d numbers to predict, of which the network has %d.", mostOutputs, outputs)
	}
	return "synthetic", options, fmt.Sprintf("noise with %d numbers to predict.", outputs)
}
