package ops

import "github.com/trainctl/trainctl/core/engine/op"

func init() { implement(op.ConvTranspose2D, bindConvGradInput) }
