//go:build !linux && !darwin

package install

import "errors"

func exchange(string, string) error { return errors.ErrUnsupported }
