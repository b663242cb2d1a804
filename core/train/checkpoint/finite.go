package checkpoint

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/tensor"
)

// A diverged run still saves checkpoints for inspection, but they do not count as good:
// Load uses the newest finite one of a directory, keep counts only finite ones, and a
// checkpoint that is not finite never becomes best or latest.

// NonFiniteError reports a checkpoint whose model has NaN or infinity.
type NonFiniteError struct{ Tensor string } // the first such tensor, without prefix

func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("its weights are not finite: the first is %s", e.Tensor)
}

// FirstNonFinite is the name of the first tensor with an element that is NaN or
// infinite; "" if there is none.
func FirstNonFinite(tensors []tensor.Named) string {
	for _, t := range tensors {
		if t.DType.Float() && !reduce.AllFiniteBytes(t.DType, t.Data) {
			return t.Name
		}
	}
	return ""
}

// good reports whether the checkpoint has an intact manifest that does not mark its
// weights as not finite.
func (i Info) good() bool { return i.Err == nil && i.Manifest.NonFinite == "" }

// AnyGood reports whether a directory has a checkpoint to continue from, by its manifests.
func AnyGood(fsys FS, dir string) bool {
	list, err := List(fsys, dir)
	if err != nil {
		return false
	}
	for _, i := range list {
		if i.good() {
			return true
		}
	}
	return false
}
