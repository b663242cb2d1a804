package sdktest

import (
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// PrecisionPlugin gives [PrecisionOptions] instances that are plugin
// processes, one each, started by the host from a path or a built-in name. The
// output of a failed check includes the last lines that the processes printed.
func PrecisionPlugin(h *host.Host, plugin string) func(testing.TB) sdk.Precision {
	return inProcesses(h, plugin, (*host.Host).StartPrecision, func(p *host.Precision, log *logTail) sdk.Precision { return &remotePrecision{Precision: p, log: log} })
}

// remotePrecision is a plugin process as an instance.
type remotePrecision struct {
	*host.Precision
	log *logTail
}

// Close may be called more than once.
func (r *remotePrecision) Close() error { return closeProcess(r.Precision) }
