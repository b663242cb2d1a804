//go:build !linux || portable

package sandbox

import "errors"

// Supported returns why this machine cannot enforce rules.
func Supported() error { return errors.New("the sandbox needs Linux") }

func lockIn(Rules, string, []string, []string) error { return Supported() }
