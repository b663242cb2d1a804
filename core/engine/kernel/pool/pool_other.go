//go:build !amd64

package pool

import "github.com/trainctl/trainctl/core/engine/kernel"

func runPoolTile(t *poolTile) { kernel.NoVectors() }

func runNormPoolTile(t *poolTile) { kernel.NoVectors() }
