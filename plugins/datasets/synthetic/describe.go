package synthetic

import (
	"context"

	"github.com/trainctl/trainctl/core/sdk"
)

// Describe returns shape and sizes, which follow from the options.
func (d *Dataset) Describe(o sdk.Options) (sdk.DatasetSpec, error) {
	return New().Open(context.Background(), sdk.DatasetRequest{Options: o})
}

var _ sdk.DatasetDescriber = (*Dataset)(nil)
