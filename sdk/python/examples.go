package python

import "embed"

// Examples has a folder for each kind of plugin.
//
//go:embed examples
var Examples embed.FS
