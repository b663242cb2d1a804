package outline

// Position is where the run is. Everything a step depends on besides the
// tensors follows from it.
type Position struct {
	Step    int // optimizer steps done, skipped ones included
	Applied int // steps that changed the weights
	Epoch   int
	Offset  int // samples of this epoch's order that all ranks together have consumed

	FirstBatch int // samples of a step when the run began, by which the learning rate may scale; 0: unknown
}

// Advance is one more step over samples of all ranks.
func (p *Position) Advance(samples int, applied bool) {
	p.Step++
	p.Offset += samples
	if applied {
		p.Applied++
	}
}

// LastEpoch is the epoch of the last step: between two epochs, the finished one.
func (p Position) LastEpoch() int {
	if p.Offset == 0 && p.Epoch > 0 {
		return p.Epoch - 1
	}
	return p.Epoch
}
