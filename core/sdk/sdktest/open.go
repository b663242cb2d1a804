package sdktest

import (
	"log/slog"
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
)

// OpenDataset opens a data set as the only rank of a job, with the defaults of all
// options that the table lacks, and closes it at the end of the test. A table that the
// options do not allow fails the test; the error returned is that of Open. log may be nil.
func OpenDataset(t testing.TB, d sdk.Dataset, table map[string]any, log *slog.Logger) (sdk.DatasetSpec, error) {
	t.Helper()
	options, problems := sdk.CheckOptions("dataset.options", d.Info().Options, table)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d.Open(t.Context(), sdk.DatasetRequest{Options: options, WorldSize: 1, Log: log})
}
