package ddp

import (
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Owners divides parameters among ranks so that the rank with most has as little as
// possible. Each rank gets a stretch of them, in their order, so that one broadcast per
// rank passes on what it updated. sizes are by parameter.
func Owners(sizes []int, world int) []int {
	low, high := 0, 0
	for _, n := range sizes {
		low, high = max(low, n), high+n
	}
	for low < high {
		if most := (low + high) / 2; stretches(sizes, most, nil) <= world {
			high = most
		} else {
			low = most + 1
		}
	}
	owners := make([]int, len(sizes))
	stretches(sizes, low, owners)
	return owners
}

// stretches counts how many stretches of at most the given size there are, and numbers them.
func stretches(sizes []int, most int, numbers []int) int {
	n, sum := 0, 0
	for i, size := range sizes {
		if sum+size > most && sum > 0 {
			n, sum = n+1, 0
		}
		sum += size
		if numbers != nil {
			numbers[i] = n
		}
	}
	return n + 1
}

// BroadcastParts overwrites region r on every rank with rank r's bytes, for all ranks at
// the same time. Regions may be empty.
func (g *Group) BroadcastParts(regions []Region, tickets []uint64) (err error) {
	if g.World == 1 {
		return nil
	}
	for root, r := range regions {
		if tickets[root] = 0; r.Size == 0 {
			continue
		}
		if tickets[root], err = g.submit(sdk.OpBroadcast, sdk.Sum, tensor.U8, r, root, -1); err != nil {
			return err
		}
	}
	for root, r := range regions {
		if r.Size > 0 {
			if err = g.wait(tickets[root], "weights", -1, r); err != nil {
				return err
			}
		}
	}
	return nil
}
