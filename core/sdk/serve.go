package sdk

// Serve is a plugin's main: it talks to the host that started the process,
// and does not return before the host lets go. Called by hand, without a host,
// it prints what the plugin is and exits with code 1.
func Serve(p Plugin) {
	serve(p)
}
