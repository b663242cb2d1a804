//go:build unix && !linux

package host

// keepDescriptors keeps this process's descriptors from its children, but for
// those that a child is given on purpose.
func keepDescriptors() { keepListed() }
