//go:build !amd64 && !arm64

package conv

import "github.com/trainctl/trainctl/core/engine/kernel"

func runDotTile(t *dotTile) { kernel.NoVectors() }
