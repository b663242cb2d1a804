package checkpoint

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/tensor"
)

// A run that has diverged still saves, and its checkpoints can be looked at, but
// they do not count as good: a directory is loaded from the newest one that is
// finite, keep counts only those, and none of them is the best or the latest.

// NonFiniteError says that a checkpoint's model holds NaN or infinity.
type NonFiniteError struct{ Tensor string } // the first such, without prefix

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

// Good reports whether the checkpoint has a manifest that is whole and says
// nothing against its weights.
func (i Info) Good() bool { return i.Err == nil && i.Manifest.NonFinite == "" }

// AnyGood reports whether a directory has a checkpoint to continue from, by its manifests.
func AnyGood(fsys FS, dir string) bool {
	list, err := List(fsys, dir)
	if err != nil {
		return false
	}
	for _, i := range list {
		if i.Good() {
			return true
		}
	}
	return false
}
