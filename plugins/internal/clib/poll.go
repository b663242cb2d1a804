package clib

import "time"

// Guard returns why a wait must end, nil while it may continue.
type Guard func() error

// Poll calls done until it returns true or an error, at growing intervals, and as long as
// the guard permits.
func Poll(g Guard, done func() (bool, error)) error {
	const often, least, most = 200, 5 * time.Microsecond, 200 * time.Microsecond
	pause := least
	for i := 0; ; i++ {
		if yes, err := done(); yes || err != nil {
			return err
		}
		if err := g(); err != nil {
			return err
		}
		if i > often {
			time.Sleep(pause)
			pause = min(2*pause, most)
		}
	}
}
