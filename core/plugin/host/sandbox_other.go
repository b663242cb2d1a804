//go:build !linux

package host

import "errors"

func lockIn([]string, []string, []string) error {
	return errors.New("there is a sandbox on Linux alone; set sandbox = false")
}
