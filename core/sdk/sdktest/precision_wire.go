package sdktest

import (
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// PrecisionPlugin gives [PrecisionOptions] instances that are plugin
// processes, one each, started by the host from a path or a built-in name. What
// the processes of a failed check printed last is part of the check's output.
func PrecisionPlugin(h *host.Host, plugin string) func(testing.TB) sdk.Precision {
	return inProcesses(h, plugin, (*host.Host).StartPrecision, func(p *host.Precision, log *logTail) sdk.Precision { return &remotePrecision{Precision: p, log: log} })
}

// remotePrecision makes a plugin process look like an instance.
type remotePrecision struct {
	*host.Precision
	log *logTail
}

// Close may be called more than once.
func (r *remotePrecision) Close() error { return closeProcess(r.Precision) }
