//go:build !linux || portable

package sandbox

import "errors"

func lockIn([]string, []string, []string) error {
	return errors.New("the sandbox needs Linux; set sandbox = false")
}
