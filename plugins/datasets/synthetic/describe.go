package synthetic

import (
	"context"

	"github.com/trainctl/trainctl/core/sdk"
)

// Describe gives shape and sizes, which the options say completely.
func (d *Dataset) Describe(o sdk.Options) (sdk.DatasetSpec, error) {
	return New().Open(context.Background(), sdk.DatasetRequest{Options: o})
}

var _ sdk.DatasetDescriber = (*Dataset)(nil)
