package sdktest

import (
	"context"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// PrecisionPlugin gives [PrecisionOptions] instances that are plugin
// processes, one each, started by the host from a path or a built-in name. What
// the processes of a failed check printed last is part of the check's output.
func PrecisionPlugin(h *host.Host, plugin string) func(testing.TB) sdk.Precision {
	return func(t testing.TB) sdk.Precision {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
		defer cancel()
		said := &lastWords{}
		p, err := said.listen(h).StartPrecision(ctx, plugin)
		if err != nil {
			t.Fatal(err)
		}
		return &remotePrecision{Precision: p, said: said}
	}
}

// remotePrecision makes a plugin process look like an instance.
type remotePrecision struct {
	*host.Precision
	said *lastWords
}

// Close may be called often, the host's once.
func (r *remotePrecision) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	return r.Precision.Close(ctx)
}
