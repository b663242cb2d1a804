package optimizer

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecSGDMomentum(p, g, buf []float32, lr, momentum, undamped, weightDecay float32) {
	if kernel.Wide() {
		sgdMomentumAVX512(&p[0], &g[0], &buf[0], lr, momentum, undamped, weightDecay, len(p))
	} else {
		sgdMomentumAVX2(&p[0], &g[0], &buf[0], lr, momentum, undamped, weightDecay, len(p))
	}
}

func runAdam(s *adamStep) {
	if kernel.Wide() {
		adamAVX512(s)
	} else {
		adamAVX2(s)
	}
}
