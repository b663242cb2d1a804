package recovery

import (
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// A failure that a new group would have again does not form one.
func TestMismatchNeedsNoNewGroup(t *testing.T) {
	failed := &host.PluginError{Kind: sdk.KindBackend, Cause: &sdk.MismatchError{Peer: 1}}
	if Replaceable(failed) {
		t.Error("a mismatch would be recovered from")
	}
	if Replaceable(&host.PluginError{Kind: sdk.KindDataset, Cause: host.ErrDied}) {
		t.Error("a data set's death would be recovered from by a new backend")
	}
}
