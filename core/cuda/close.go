package cuda

// Close gives the device back. All programs over it are closed before.
func (d *Device) Close() error {
	leave := d.enter()
	err := joinFree(d.feed.close(d), d.lib.close())
	err = joinFree(err, d.cu.StreamDestroy(d.stream))
	for t, m := range d.modules {
		err = joinFree(err, d.cu.ModuleUnload(m))
		delete(d.modules, t)
	}
	leave()
	return joinFree(err, d.cu.PrimaryCtxRelease(d.dev))
}
